#!/bin/sh
# One rule's life on a live server, with nothing but curl: a version is swapped while events come in, rolled back, and mended.
# Every step says what it proves; the first thing that is wrong ends the tour with exit code 1.
#
# It needs `keyfold` (or KEYFOLD=path), curl, and the components that `cargo xtask build` writes into the examples.
set -eu

examples=$(cd "$(dirname "$0")/.." && pwd)
keyfold=${KEYFOLD:-keyfold}
old=$examples/fraud-session new=$examples/fraud-session-1-1
# Bodies of 1,000 events: before the new version comes, while it is brought and swapped in, and after that.
first=${TOUR_FIRST:-10} during=${TOUR_DURING:-60} last=${TOUR_LAST:-30}

work=$(mktemp -d)
cd "$work"
server= sender=
finish() {
    for process in $sender $server; do
        kill "$process" 2>/dev/null || true
    done
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

say() { printf '\n%s\n' "$*"; }
proved() { printf '  ok: %s\n' "$*"; }
wrong() {
    printf '  WRONG: %s\n' "$*" >&2
    [ ! -s server.log ] || tail -n 20 server.log >&2
    exit 1
}
# ask METHOD PATH [curl's arguments]: the answer, with the token of whoever asks.
ask() {
    method=$1 path=$2
    shift 2
    curl --silent --show-error --fail-with-body --oauth2-bearer "$token" --request "$method" "$url$path" "$@" ||
        wrong "$method $path was refused"
}
send_json() {
    json=$3
    ask "$1" "$2" --header 'Content-Type: application/json' --data "$json"
}
# is_refused METHOD PATH JSON: whether the server says no.
is_refused() {
    ! curl --silent --fail-with-body --oauth2-bearer "$token" --header 'Content-Type: application/json' \
        --request "$1" "$url$2" --data "$3" >answer
}
# The first member of this name in what comes in.
first_member() { tr ',{' '\n\n' | sed -n "s/^\"$1\":\"\{0,1\}\([^\"}]*\).*/\1/p" | head -n 1; }
# until_it WHAT COMMAND…: waits until a command succeeds.
until_it() {
    what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 3000 ] || wrong "waited in vain until $what"
        sleep 0.1
    done
}
count() { wc -l | tr -d ' '; }

for folder in "$old" "$new"; do
    [ -s "$folder/rule.wasm" ] || wrong "$folder/rule.wasm is missing: run \`cargo xtask build\`"
done

say "A server in a temporary folder, a tenant with tokens, a stream"
"$keyfold" serve --data server --listen 127.0.0.1:0 --admin-token-file platform.token >server.out 2>server.log &
server=$!
listens() { grep -q 'listening on http' server.out server.log 2>/dev/null; }
until_it "the server listens" listens
url=$(cat server.out server.log | sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' | head -n 1)
token=$(cat platform.token)
send_json POST /v1/tenants '{"name":"acme"}' >answer
for role in admin author operator reader; do
    send_json POST /v1/tenants/acme/tokens "{\"name\":\"$role\",\"role\":\"$role\"}" | first_member secret >"$role.token"
done
as() { token=$(cat "$1.token"); }
as author
send_json PUT /v1/streams/payments '{}' >answer
proved "acme has an admin, an author, an operator and a reader, and the stream payments"

say "The rule fraud, with version 1.0"
manifest='"inputs":{"input":{"stream":"payments","key":["/user_id"],"event_time":"/ts","watermark_delay":"20m"}},
    "batch":{"events":1000},"errors":{"rollback_batches":0,"quarantine_batches":0}'
send_json PUT /v1/rules/fraud "{$manifest}" >answer
# push FOLDER: brings a version, waits until it is checked, and says its digest.
push() {
    ask POST /v1/rules/fraud/versions --header 'Content-Type: application/wasm' --data-binary "@$1/rule.wasm" >answer
    digest=$(first_member digest <answer)
    is_checked() { [ "$(ask GET "/v1/rules/fraud/versions/$digest" | tee checked | first_member status)" != checking ]; }
    until_it "version $digest is checked" is_checked
    [ "$(first_member status <checked)" = ready ] || wrong "the version is refused: $(cat checked)"
}
push "$old"
old_digest=$digest
is_refused POST /v1/rules/fraud/activate "{\"version\":\"$old_digest\"}" || wrong "the author could let the own version run"
as operator
send_json POST /v1/rules/fraud/activate "{\"version\":\"$old_digest\"}" >answer
proved "the author brought $old_digest, and an operator, not the author, let it run"

say "Events, a thousand in each request, sent while the next version is brought and swapped in"
"$keyfold" gen fraud --events $(((first + during + last) * 1000)) --users 3000 >payments.jsonl
mkdir bodies
split -l 1000 -a 4 payments.jsonl bodies/
# Sends the bodies; waits for the files `bring` and `swap` on its way, so that it never runs ahead of the tour.
send_all() {
    token=$(cat author.token) number=0
    for body in bodies/*; do
        [ "$number" -ne "$first" ] || until_it "the tour comes to the new version" test -e bring
        [ "$number" -ne $((first + during)) ] || until_it "the tour comes to the swap" test -e swap
        send "$body"
        number=$((number + 1))
        echo "$number" >sent.new && mv sent.new sent
    done
}
# Every tenth request is sent twice, as after an answer that was lost.
send() {
    post() {
        ask POST /v1/streams/payments/events --header 'Content-Type: application/x-ndjson' \
            --header "Idempotency-Key: $1" --data-binary "@$1"
    }
    post "$1" >"answer-of-sender"
    case $1 in
    *0 | *a) post "$1" | cmp -s - answer-of-sender || wrong "a request that came again got another answer" ;;
    esac
}
sent() { cat sent 2>/dev/null || echo 0; }
send_all &
sender=$!
sent_first() { [ "$(sent)" -ge "$first" ]; }
until_it "the first events are sent" sent_first
touch bring
sent_before=$(sent)
as author
push "$new"
new_digest=$digest
as operator
touch swap
goes_on() { [ "$(sent)" -gt $((first + during)) ]; }
[ "$last" -eq 0 ] || until_it "more events come" goes_on
lag=$(ask GET /v1/rules/fraud | first_member lag)
send_json POST /v1/rules/fraud/activate "{\"version\":\"$new_digest\",\"state\":\"migrate\"}" >answer
swapped=$(first_member batch <answer)
sent_after=$(sent)
wait "$sender" || wrong "the events were not sent"
sender=
# until_read: waits until the rule has read all that is sent, its timeouts are handled, and its outputs are in their stream.
until_read() {
    is_read() {
        [ "$(ask GET /v1/rules/fraud | first_member lag)" = 0 ]
    }
    until_it "the rule has read everything" is_read
    before=none
    is_quiet() {
        sleep 1
        now=$(ask GET /v1/rules/fraud | first_member batch)-$(ask GET /v1/streams/fraud.outputs | first_member next)
        [ "$now" = "$before" ] || { before=$now && false; }
    }
    until_it "the rule has nothing to do" is_quiet
}
until_read
is_migrated() { [ "$(ask GET /v1/rules/fraud | first_member rows_left)" = 0 ]; }
until_it "all states are migrated" is_migrated
proved "$(((sent_after - sent_before) * 1000)) events were taken between bringing 1.1 and its first batch, $swapped; $lag waited to be read"
[ $((sent_after - sent_before)) -ge $((during < 50 ? during : 50)) ] || wrong "too few events were on their way"

say "The outputs, compared with a run of the same events without server and without swap"
# read_back: the outputs of all batches as they are in the stream.
read_back() {
    as reader
    next=0
    : >stored
    while :; do
        ask GET "/v1/streams/fraud.outputs/events?from=$next&limit=1000" >page
        [ -s page ] || break
        cat page >>stored
        next=$(($(tail -n 1 page | first_member number) + 1))
    done
    # Each event is an envelope, which ends with the output itself.
    sed 's/^.*"event"://; s/}$//' stored >envelopes
    sed 's/^.*,"output"://; s/}$//' envelopes | sort >outputs
    grep -o '"id":"[^"]*"' envelopes | grep '/' | sort >ids
}
# reference NAME RULE FILE…: what `keyfold run` makes of the same events.
reference() {
    name=$1 rule=$2
    shift 2
    rm -rf "$name.data" "$name.out"
    "$keyfold" run "$rule" --quiet --input "$@" --data "$name.data" --output "$name.out"
    cat "$name.out"/*.jsonl | sort >"$name"
}
compare() {
    cmp -s outputs "$1" || {
        diff outputs "$1" | head -n 10 >&2
        wrong "the outputs differ from those of $1: $(count <outputs) and $(count <"$1")"
    }
}
reference reference "$old" payments.jsonl
reference reference-1-1 "$new" payments.jsonl
cmp -s reference reference-1-1 || wrong "the versions say something else of these events: no tour can tell when it was swapped"
read_back
compare reference
[ "$(count <outputs)" -gt 50 ] || wrong "there are hardly any outputs"
proved "$(count <outputs) outputs, the same as those of the reference: nothing is lost"
[ "$(uniq -d ids | count)" = 0 ] && [ "$(count <ids)" = "$(count <outputs)" ] || wrong "an output is there twice"
proved "each has an id of its own: nothing is there twice"
# digests FROM TO: how many outputs of these batches have which digest.
digests() {
    sed 's/.*"digest":"\([^"]*\)","batch":\([0-9]*\).*/\2 \1/' envelopes |
        awk -v from="$1" -v to="$2" '$1 >= from && $1 < to { print $2 }' | sort | uniq -c | awk '{ print $2 "=" $1 }'
}
before=$(digests 0 "$swapped") after=$(digests "$swapped" 999999999)
case $before/$after in
"$old_digest="*/"$new_digest="*) ;;
*) wrong "the outputs are not of the versions that ran: $before before batch $swapped, $after after it" ;;
esac
proved "$before up to batch $swapped, $after from there on: each names the digest that made it"

say "Roll back to 1.0; the states of 1.1, which 1.0 cannot read, are drained"
as operator
is_refused POST /v1/rules/fraud/rollback '{"state":"keep"}' || wrong "1.0 was let loose on states that it cannot read"
proved "keeping the states is refused: $(first_member code <answer)"
took=$(ask POST /v1/rules/fraud/rollback --header 'Content-Type: application/json' --data '{"state":"drain"}' \
    --output answer --write-out '%{time_total}')
rolled_back=$(first_member batch <answer)
awk -v took="$took" 'BEGIN { exit !(took < 1) }' || wrong "the roll-back took $took s"
proved "it took $took s; 1.0 runs again since batch $rolled_back"

say "Dead letters: a limit that is too low, mended, and the events run again"
# payments USER: seven high payments, one a second: enough for an alert.
after_all=$(tail -n 1 payments.jsonl | first_member ts)
payments() {
    for number in 1 2 3 4 5 6 7; do
        printf '{"type":"payment.authorized.v1","txn_id":"%s-%s","user_id":"%s","ts":%s,"amount_minor":90000,"country":"CH"}\n' \
            "$1" "$number" "$1" $((after_all + number * 1000))
    done
}
payments new-user >bodies/new-user
payments unlucky >bodies/unlucky
as author
send bodies/new-user
until_read
send_json PUT /v1/rules/fraud "{$manifest,\"limits\":{\"fuel-per-group\":1000,\"fuel-per-event\":1000}}" >answer
send bodies/unlucky
until_read
as operator
ask GET /v1/rules/fraud/dead-letters >letters
letters() { grep -o '"reason":' letters | count; }
[ "$(letters)" -ge 1 ] || wrong "nothing failed"
proved "dead letters: $(letters), because of $(first_member reason <letters)"
as author
send_json PUT /v1/rules/fraud "{$manifest}" >answer
as operator
send_json POST /v1/rules/fraud/dead-letters/re-drive '{"all":true}' >answer
again=$(first_member events <answer)
# Those whose events ran again say in which batch.
have_run() {
    ask GET '/v1/rules/fraud/dead-letters?all=true' >letters
    [ "$(letters)" = "$(grep -o '"re_driven":[0-9]' letters | count)" ]
}
until_it "the events of all dead letters ran again" have_run
until_read
proved "$again of their events ran again, and no dead letter waits"
reference reference "$old" payments.jsonl bodies/new-user bodies/unlucky
read_back
compare reference
proved "$(count <outputs) outputs, still the same as those of the reference"
grep '"key":"\(new-user\|unlucky\)"' envelopes >late || wrong "the last users have no outputs"
[ "$(grep -c "$old_digest" late)" = "$(count <late)" ] || wrong "a key without a state was not handled by the version that was rolled back to"
proved "those of keys without a state of 1.1 are of $old_digest"

say "The audit, and a stop in order"
kill -TERM "$server"
wait "$server" || wrong "the server did not stop in order"
server=
"$keyfold" audit verify server || wrong "the audit does not verify"
proved "who did what with which digest is written down, and nothing in it was changed"
say "All of it holds."
