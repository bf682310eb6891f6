# One login and one command per host, all hosts at once: what no tool can be faster than.
# $1: OpenSSH's configuration; $2: folder with NAME.in for every host, where NAME.out is written;
# $3: the command; the rest: the hosts.
config=$1 folder=$2 command=$3
shift 3
pids=
for host in "$@"; do
    ssh -F "$config" -o BatchMode=yes "$host" "$command" <"$folder/$host.in" >"$folder/$host.out" &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || exit
done
