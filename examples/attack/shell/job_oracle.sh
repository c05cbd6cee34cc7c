#!/usr/bin/env bash
# Says whether the counter of job.sh is right: at least what was surely counted, and no more than was begun.
exec 3<>"/dev/tcp/$REDIS_HOST/$REDIS_PORT" || exit 2
printf 'AUTH %s\r\nGET counter\r\n' "$REDIS_PASSWORD" >&3
IFS= read -r -u 3 _ && IFS= read -r -u 3 length
counter=0
if [[ $length != '$-1'* ]]; then IFS= read -r -u 3 counter; fi
counter=${counter%$'\r'}
lines() { cat "$PICKLOCK_DIR/$1" 2>/dev/null | wc -l; }
least=$(lines done) most=$(lines begun)
if ((counter < least || counter > most)); then
    echo "the counter is $counter, and must be $least at least and $most at most"
    exit 1
fi
