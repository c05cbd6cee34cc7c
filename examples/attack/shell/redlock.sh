#!/usr/bin/env bash
# Redlock with nothing but bash: SET NX with a TTL on most of the servers, and a script that deletes one's own key.
trap '' PIPE
IFS=, read -ra urls <<<"$REDIS_URLS"
most=$((${#urls[@]} / 2 + 1))
# A server that is silent must not cost the others their time.
patience=0.$(printf '%03d' $((PICKLOCK_TTL_MS / 10)))
script='if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'

# Server $1's connection is file descriptor 10 + $1. One that is not logged in to is closed.
connect() {
    local address=${urls[$1]##*@} fd=$((10 + $1))
    address=${address%%/*}
    eval "exec $fd<>/dev/tcp/${address%:*}/${address#*:}" && ask "$1" AUTH "$REDIS_PASSWORD" || eval "exec $fd>&-"
}

# Milliseconds since the machine was started: no step of the wall clock is in them.
uptime_ms() {
    read -r now _ </proc/uptime
    now=${now/./}0
}

# Sends a server a command; whether its reply is good. Of a reply only the first line is read.
ask() {
    local server=$1 request arg reply=
    shift
    request="*$#"$'\r\n'
    for arg; do request+="\$${#arg}"$'\r\n'"$arg"$'\r\n'; done
    # In a process of its own, for bash keeps what it could not write, and writes it to the next one.
    (printf %s "$request" >&$((10 + server))) 2>/dev/null &&
        IFS= read -r -t "$patience" -u $((10 + server)) reply || reply=
    [[ $reply == [+:]* && $reply != :0* ]] && return
    # A late reply must not be taken for the next one's.
    if [[ $reply != [-:\$]* && $1 != AUTH ]]; then connect "$server"; fi
    return 1
}

# On how many servers a command succeeds.
count() {
    local server
    agreed=0
    for server in "${!urls[@]}"; do ask "$server" "$@" && agreed=$((agreed + 1)); done
}

for server in "${!urls[@]}"; do connect "$server"; done
echo ready reports
while read -r order; do
    answer=ok
    case $order in
        acquire)
            token=$RANDOM$RANDOM$RANDOM
            uptime_ms
            begun=$now
            count SET "$PICKLOCK_KEY" "$token" NX PX "$PICKLOCK_TTL_MS"
            uptime_ms
            # Its grain is ten milliseconds.
            valid=$((PICKLOCK_TTL_MS * 99 / 100 - 12 - (now - begun)))
            if ((agreed >= most && valid > 0)); then
                answer="ok valid_ms=$valid"
            else
                count EVAL "$script" 1 "$PICKLOCK_KEY" "$token"
                answer=no
            fi
            ;;
        release)
            count EVAL "$script" 1 "$PICKLOCK_KEY" "$token"
            # A connection that was broken is a new one now.
            if ((agreed < most)); then
                released=$agreed
                count EVAL "$script" 1 "$PICKLOCK_KEY" "$token"
                if ((released + agreed < most)); then answer=no; fi
            fi
            ;;
    esac
    echo "$answer"
done
