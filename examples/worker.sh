#!/bin/sh
# A worker in plain shell: it needs curl, and python3 to read JSON. It runs jobs of the kind `shell.upper`, one at a time.
#
#   MAINSPRING_SERVER=http://127.0.0.1:8420 MAINSPRING_KEY=msk_… examples/worker.sh
#
# The protocol is described in docs/reference/worker-protocol.md: register, then pull and report in turn.
set -u
server=${MAINSPRING_SERVER:-http://127.0.0.1:8420}
folder=$(mktemp -d)
session=

# say METHOD PATH DOCUMENT: the answer is in $folder/answer, its status in $status; 000: there was none.
say() {
  status=$(curl --silent --max-time 40 --output "$folder/answer" --write-out '%{http_code}' \
    --request "$1" --header "Authorization: Bearer ${MAINSPRING_KEY:-none}" --header 'Content-Type: application/json' \
    --data "$3" "$server$2") || status=000
}

# field EXPRESSION: a part of the answer, such as 'a["session"]'. Texts are printed as they are, everything else as JSON.
field() {
  python3 -c 'import json, sys
a = json.load(open(sys.argv[1]))
value = eval(sys.argv[2])
print(value if isinstance(value, str) else json.dumps(value))' "$folder/answer" "$1"
}

register() {
  until say POST /v1/workers '{"protocol": 1, "name": "worker.sh", "slots": 1, "kinds": ["shell.upper"]}' && [ "$status" = 201 ]; do
    case $status in
      401 | 403 | 422) cat "$folder/answer" >&2; exit 1 ;;  # no patience heals that
    esac
    sleep 1
  done
  session=$(field 'a["session"]')
  number=0
  echo "registered as $session"
}

leave() {
  [ -n "$session" ] && say DELETE "/v1/workers/$session" ''
  rm -rf "$folder"
  exit 0
}
trap leave INT TERM

# The work itself: arguments on standard input, the result as JSON on standard output.
upper() {
  python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["text"].upper()))'
}

run() {
  job=$(field 'a["assignments"][0]["job"]')
  attempt=$(field 'a["assignments"][0]["attempt"]')
  field 'a["assignments"][0]["arguments"]' >"$folder/arguments"
  upper <"$folder/arguments" >"$folder/result" 2>"$folder/errors" &
  work=$!
  while kill -0 $work 2>/dev/null; do  # a long job says every three seconds that it still runs
    sleep 0.1
    tenths=$((${tenths:-0} + 1))
    [ $((tenths % 30)) = 0 ] && say POST "/v1/workers/$session/report" "{\"running\": [[\"$job\", $attempt]]}"
  done
  if wait $work; then
    outcome="{\"job\": \"$job\", \"attempt\": $attempt, \"type\": \"completed\", \"result\": $(cat "$folder/result")}"
  else
    message=$(tail -n 1 "$folder/errors" | python3 -c 'import json, sys; print(json.dumps(sys.stdin.read().strip()))')
    outcome="{\"job\": \"$job\", \"attempt\": $attempt, \"type\": \"failed\", \"failure\": {\"message\": $message}}"
  fi
  until say POST "/v1/workers/$session/report" "{\"outcomes\": [$outcome]}" && [ "$status" != 000 ] && [ "$status" != 503 ]; do
    sleep 1  # repeated until it is answered: an outcome counts once, however often it is sent
  done
  echo "$job: $status"
}

register
while :; do
  number=$((number + 1))
  # A short wait: the next pull is the sign of life that is due within ten seconds.
  until say POST "/v1/workers/$session/pull" "{\"number\": $number, \"free\": 1, \"wait_s\": 5}" && [ "$status" != 000 ] && [ "$status" != 503 ]; do
    sleep 1  # with the same number: the answer may have been lost, and jobs with it
  done
  case $status in
    200)
      [ "$(field 'len(a["assignments"])')" = 1 ] && run
      [ "$(field 'a.get("drain", False)')" = true ] && leave
      ;;
    410) register ;;
    *) cat "$folder/answer" >&2; exit 1 ;;
  esac
done
