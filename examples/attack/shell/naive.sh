#!/usr/bin/env bash
# A lock of a few lines with nothing but bash: SET NX with a TTL, and DEL.
trap '' PIPE

connect() {
    exec 3<>"/dev/tcp/$REDIS_HOST/$REDIS_PORT" && ask AUTH "$REDIS_PASSWORD"
}

# Sends a command and reads the first line of its reply; an error or the end of the connection is a failure.
ask() {
    reply=
    printf '%s\r\n' "$*" >&3 2>/dev/null && IFS= read -r -u 3 reply && [[ $reply != -* ]]
}

# After an error of the server the connection is as good as before.
broken() {
    if [[ $reply != -* ]]; then connect; reply="-the connection broke"; fi
}

connect
echo ready
while read -r order; do
    case $order in
        acquire) ask SET "$PICKLOCK_KEY" 1 NX PX "$PICKLOCK_TTL_MS" || broken ;;
        release) ask DEL "$PICKLOCK_KEY" || broken ;;
        check) reply=+OK ;;
    esac
    case $reply in
        '$-1'*) echo no ;;
        -*) echo "unknown $reply" ;;
        *) echo ok ;;
    esac
done
