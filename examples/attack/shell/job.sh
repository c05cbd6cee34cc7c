#!/usr/bin/env bash
# A job as it may stand in a crontab: waits for the lock, counts one up, and frees the lock. It knows nothing of
# picklock but where to note what it has done.
trap '' PIPE

# Sends a command and reads the first line of its reply; an error or the end of the connection ends the job.
ask() {
    printf '%s\r\n' "$*" >&3 2>/dev/null && IFS= read -r -u 3 reply && [[ $reply != -* ]] && return
    echo "$*: ${reply:-the connection broke}" >&2
    exit 1
}

exec 3<>"/dev/tcp/$REDIS_HOST/$REDIS_PORT" || exit 1
ask AUTH "$REDIS_PASSWORD"
until ask SET "$PICKLOCK_KEY" 1 NX PX "$PICKLOCK_TTL_MS" && [[ $reply == +OK* ]]; do sleep 0.02; done

ask GET counter
counter=0
if [[ $reply != '$-1'* ]]; then IFS= read -r -u 3 counter; fi
counter=${counter%$'\r'}
sleep "${WORK_SECONDS:-0.1}"
echo "$PICKLOCK_CLIENT" >>"$PICKLOCK_DIR/begun"
ask SET counter "$((counter + 1))"
echo "$PICKLOCK_CLIENT" >>"$PICKLOCK_DIR/done"

ask DEL "$PICKLOCK_KEY"
