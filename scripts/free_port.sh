# To be sourced: `free_port` prints a TCP port of this machine that nobody listens at. It is taken from below the range from which the
# system gives ports to connections (32768 and above on Linux), so that no connection of another program comes to have it before a server does.
free_port() {
    local port
    for _ in $(seq 100); do
        port=$((10000 + RANDOM % 22000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return 0; }
    done
    echo "no free port was found" >&2
    return 1
}
