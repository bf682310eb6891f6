"""SSH servers on this computer: real logins, and commands that are played."""

import contextlib
import shlex
import socket
import threading
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSWORD = "correct horse"


def new_key(file, passphrase=None):
    """A key of OpenSSH's kind, in a file only we may read; its public half lies beside it."""
    lock = serialization.NoEncryption()
    if passphrase:
        builder = serialization.PrivateFormat.OpenSSH.encryption_builder()
        lock = builder.kdf_rounds(1).build(passphrase.encode())
    key = Ed25519PrivateKey.generate()
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, lock)
    )
    file.chmod(0o600)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    file.with_name(f"{file.name}.pub").write_bytes(public)
    return paramiko.Ed25519Key(filename=str(file), password=passphrase)


def read_all(channel):
    """What a client says until it has finished."""
    data = b""
    while chunk := channel.recv(1 << 16):
        data += chunk
    return data


class Server(paramiko.ServerInterface):
    """Each command is answered by the method that its first word names."""

    def __init__(self, host_key, user_key):
        self.host_key, self.user_key = host_key, user_key
        self.more_keys = []
        self.logins = []
        self.offered = []
        self.commands = []
        self.terminals = []
        self.inputs = []
        self.forwarded = {}
        self.hang_ups = 0
        self.wants_password = False
        self.wants_terminal = False
        self.stopped = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.stopped.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.hang_ups:
                self.hang_ups -= 1
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            login = paramiko.Transport(client)
            self.logins.append(login)
            for key in (self.host_key, *self.more_keys):
                login.add_server_key(key)
            try:
                login.start_server(server=self, event=threading.Event())
            except paramiko.SSHException:
                login.close()
            threading.Thread(target=self.forward, args=(login,), daemon=True).start()

    def stop(self):
        """Hang up at once; paramiko's own goodbye takes a tenth of a second for each login."""
        self.stopped.set()
        self.listener.close()
        for login in self.logins:
            with contextlib.suppress(OSError):
                login.sock.shutdown(socket.SHUT_RDWR)

    # --- logins --------------------------------------------------------------------------------

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        self.offered.append(key)
        good = key == self.user_key
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(self, chanid, origin, destination):
        self.forwarded[chanid] = destination
        return paramiko.OPEN_SUCCEEDED

    def forward(self, login):
        """Carry what comes through this login on to where it wants to go."""
        while channel := login.accept(60):
            if channel.get_id() in self.forwarded:
                there = socket.create_connection(self.forwarded[channel.get_id()])
                for source, sink in ((channel, there), (there, channel)):
                    threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        with contextlib.suppress(OSError, EOFError):
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
        with contextlib.suppress(OSError, EOFError):
            sink.close()

    # --- commands ------------------------------------------------------------------------------

    def check_channel_pty_request(self, channel, *_size_and_modes):
        self.terminals.append(channel.get_id())
        return True

    def check_channel_exec_request(self, channel, command):
        self.commands.append(command.decode())
        threading.Thread(target=self.do, args=(channel, command.decode()), daemon=True).start()
        return True

    def do(self, channel, command):
        word = Path(shlex.split(command)[0]).name
        with contextlib.suppress(OSError, EOFError):  # the client may be gone by now
            getattr(self, f"do_{word}")(channel, command)

    def end(self, channel, code, err=""):
        if err:
            channel.sendall_stderr(err.encode())
        channel.send_exit_status(code)
        channel.close()

    def do_stty(self, channel, command):
        """Makes a terminal raw, says so, and becomes the command behind it."""
        channel.sendall(b"ready\n")
        self.do(channel, command.partition("; exec ")[2])

    def do_env(self, channel, command):
        """Sets variables, and becomes the command behind them."""
        words = shlex.split(command)[1:]
        self.do(channel, shlex.join(w for w in words if not w.startswith("LC_ALL=")))

    def do_sudo(self, channel, command):
        """Asks for a terminal and a password first, as this server's sudoers has it.

        When it refuses, it has read one byte, and the client knows that the command was started.
        """
        options, _, inner = command.partition(" -- ")
        if self.wants_terminal and channel.get_id() not in self.terminals:
            channel.recv(1)
            self.end(channel, 1, "sudo: sorry, you must have a tty to run sudo\n")
            return
        if self.wants_password and "-n" in options.split():
            channel.recv(1)
            self.end(channel, 1, "sudo: a password is required\n")
            return
        if self.wants_password and self.line(channel) != PASSWORD:
            self.end(channel, 1, "Sorry, try again.\nsudo: 1 incorrect password attempt\n")
            return
        self.do(channel, inner)

    def do_sh(self, channel, command):
        """Says that it runs, and becomes the command behind its script."""
        channel.sendall(b"ready\n")
        self.do(channel, shlex.join(shlex.split(command)[3:]))

    def line(self, channel):
        said = b""
        while not said.endswith(b"\n"):
            said += channel.recv(1)
        return said[:-1].decode()

    def do_cat(self, channel, _command):
        """Gives back what it is told, and says how much on the other stream."""
        data = read_all(channel)
        self.inputs.append(data)
        channel.sendall(data)
        code = 7 if data.startswith(b"fail") else 0
        self.end(channel, code, f"{len(data)} bytes")

    def do_sleep(self, channel, _command):
        """Never answers."""
        self.stopped.wait()

    def do_cut(self, channel, _command):
        """Says half of something, then the connection is gone."""
        read_all(channel)
        channel.sendall(b"one\nhalf")
        self.logins[-1].close()

    def do_hang(self, channel, _command):
        """The connection is gone while input still comes."""
        channel.recv(1)
        self.logins[-1].close()

    def do_quit(self, channel, _command):
        """Ends before it has read its input."""
        channel.recv(1)
        self.end(channel, 5, "enough\n")

    def do_fail(self, channel, _command):
        """Ends with an error after its first line."""
        read_all(channel)
        channel.sendall(b"one\n")
        self.end(channel, 1, "no such thing\n")
