#!/usr/bin/env bash
# Copyright The Continuum Authors
# SPDX-License-Identifier: Apache-2.0

# The life of one certificate with curl and openssl alone: enrol, check, renew,
# read the policy, revoke, and verify the ledger's chain. It shows what a client
# of your own has to do, and needs nothing of Continuum but a server:
#
#   IKHNOS_SERVER=https://ikhnos.example.com IKHNOS_CA_PIN=sha256:… \
#   IKHNOS_TOKEN=ikadm_… docs/examples/by-hand.sh
#
# The token needs the role admin in the organisation (IKHNOS_ORG, or "default").
# It makes an operator and a cluster of its own and deletes both at the end. The
# files are left in a new folder, or in the one that is named as argument.

set -euo pipefail
umask 077

server=${IKHNOS_SERVER:?the URL of the control server}
pin=${IKHNOS_CA_PIN:?the pin that the server logs when it starts}
token=${IKHNOS_TOKEN:?an admin token}
org=/api/v1/orgs/${IKHNOS_ORG:-default}
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"
cd "$dir"
server=${server%/}

say() { printf '\n== %s\n' "$*"; }
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

# ---- Small tools -----------------------------------------------------------

# base64url without padding, of standard input
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }

# the bytes of base64url text
unbase64url() {
	local text
	text=$(printf %s "$1" | tr '_-' '/+')
	while ((${#text} % 4)); do text+='='; done
	printf %s "$text" | openssl base64 -d -A
}

# the bytes of hexadecimal text, and back
unhex() { printf '%b' "$(printf %s "$1" | sed 's/../\\x&/g')"; }
hex() { od -An -v -tx1 | tr -d ' \n'; }

sha256() { openssl dgst -sha256 -binary; }

# the SHA-256 of the public key of a certificate
spki_hash() { openssl x509 -in "$1" -noout -pubkey | openssl pkey -pubin -outform DER | sha256 | hex; }

# one text member of a JSON object; PEM blocks carry their line ends as \n
member() { sed -n 's/.*"'"$2"'":"\([^"]*\)".*/\1/p' "$1" | sed 's/\\n/\n/g'; }

# PEM as the inside of a JSON text
json_pem() { awk '{ printf "%s\\n", $0 }' "$1"; }

# call METHOD PATH WANTED-STATUS [curl arguments]: the answer is in answer.json
call() {
	local method=$1 path=$2 want=$3 got
	shift 3
	got=$(curl --silent --show-error --cacert server-ca.crt --request "$method" \
		--output answer.json --dump-header headers.txt --write-out '%{http_code}' "$@" "$server$path")
	[ "$got" = "$want" ] || fail "$method $path answered $got, not $want: $(cat answer.json)"
}

# admin METHOD PATH WANTED-STATUS [BODY]: the token goes by a file, not by an
# argument, which other users of the machine could read
admin() {
	local body=()
	[ $# -lt 4 ] || body=(--header 'Content-Type: application/json' --data "$4")
	call "$1" "$org$2" "$3" --header @admin.header "${body[@]}"
}

# ---- 1. Know the server by its pin -----------------------------------------

say "1. The server's CA is the certificate of its chain whose key has the pin"
printf 'Authorization: Bearer %s\n' "$token" >admin.header
address=${server#https://}
address=${address%%/*}
case $address in *:*) ;; *) address+=:443 ;; esac
openssl s_client -connect "$address" -showcerts </dev/null 2>/dev/null |
	awk '/BEGIN CERTIFICATE/ { n++ } /BEGIN CERTIFICATE/,/END CERTIFICATE/ { print > ("presented-" n ".crt") }'
for file in presented-*.crt; do
	[ "sha256:$(spki_hash "$file")" != "$pin" ] || cp "$file" server-ca.crt
done
[ -f server-ca.crt ] || fail "no certificate of the server has the pin"
call GET /readyz 200
openssl x509 -in server-ca.crt -noout -subject

# ---- 2. Make an operator, a cluster and tokens -----------------------------

say "2. An operator that takes data, a cluster that may send to it, and a token for each"
suffix=$(openssl rand -hex 4)
operator=op-hand-$suffix
cluster=hand-$suffix
name=$operator-export-$cluster
admin PUT "/operators/$operator" 201 '{"name":"By hand","role":"central"}'
admin PUT "/clusters/$cluster" 201 '{"kind":"host"}'
admin POST "/clusters/$cluster/approve" 200
admin PUT "/operators/$operator/senders/$cluster" 201 '{}'
admin POST "/operators/$operator/enrollment-tokens" 201 '{"role":"receiver"}'
member answer.json token >receiver.token
admin POST "/operators/$operator/enrollment-tokens" 201 "{\"role\":\"sender\",\"sender\":\"$cluster\"}"
member answer.json token >sender.token

# ---- 3. Enrol --------------------------------------------------------------

# new_key WHO makes WHO.key and a certificate request for it. The server takes
# the key alone from a request: names and dates are its own.
new_key() {
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null
	openssl req -new -key "$1.key" -subj /CN=ignored -out "$1.csr"
}

# keep WHO takes the certificate out of an answer.
keep() {
	member answer.json certificate >"$1.crt"
	member answer.json ca >"$1.ca"
	member answer.json serial >"$1.serial"
}

# enrol WHO TOKEN-FILE
enrol() {
	printf '{"token":"%s","csr":"%s"}' "$(cat "$2")" "$(json_pem "$1.csr")" >body.json
	call POST /api/v1/operator-certificates/enroll 200 --header 'Content-Type: application/json' --data-binary @body.json
	keep "$1"
}

say "3. Enrol: a token and a request for a certificate"
new_key receiver
enrol receiver receiver.token
new_key sender
enrol sender sender.token
cp answer.json first.json
cp receiver.ca ca.crt
cmp -s receiver.ca sender.ca || fail "the operator has two CAs"

# A token names the CA that its certificate has to come from: 32 random bytes, 16
# of the hash of the CA's key, and a checksum.
named=$(unbase64url "$(sed 's/^iktok_//' sender.token)" | hex | cut -c65-96)
[ "$named" = "$(spki_hash ca.crt | cut -c1-32)" ] || fail "the certificate comes from another CA than the token names"

say "   The same key gets the same answer, byte for byte: an answer may be lost"
enrol sender sender.token
cmp answer.json first.json

say "   Another key does not: the token is spent"
new_key thief
printf '{"token":"%s","csr":"%s"}' "$(cat sender.token)" "$(json_pem thief.csr)" >body.json
call POST /api/v1/operator-certificates/enroll 401 --header 'Content-Type: application/json' --data-binary @body.json
member answer.json reason | grep -x token_spent

# ---- 4. Verify the certificates --------------------------------------------

say "4. What came belongs to our key, chains to the CA and has the right names"
[ "$(openssl x509 -in sender.crt -noout -pubkey)" = "$(openssl pkey -in sender.key -pubout)" ] || fail "not our key"
openssl verify -CAfile ca.crt -purpose sslclient sender.crt
openssl verify -CAfile ca.crt -purpose sslserver -verify_hostname "$operator.continuum-system.svc" receiver.crt
openssl x509 -in sender.crt -noout -subject -enddate -ext subjectAltName,extendedKeyUsage | tee names.txt
grep -q "DNS:$name, URI:spiffe://$operator.ikhnos/cluster/$cluster" names.txt || fail "not our names"
[ "$(openssl x509 -in sender.crt -noout -serial | sed 's/serial=//' | tr A-F a-f)" = "$(cat sender.serial)" ] || fail "not the serial of the answer"

# ---- 5. Renew by a holder proof --------------------------------------------

# ES256 signs with r and s as 32 bytes each; openssl writes them as two ASN.1
# integers.
es256() {
	openssl dgst -sha256 -sign "$1" -binary >signature.der
	openssl asn1parse -inform DER -in signature.der | sed -n 's/.*INTEGER *://p' |
		while read -r number; do
			while ((${#number} < 64)); do number=0$number; done
			unhex "$number"
		done | base64url
}

# proof WHO METHOD ROUTE BODY-FILE prints the Authorization header: a JWS that
# names the request and is good once, for 30 seconds.
proof() {
	local header claims now
	now=$(date +%s)
	header=$(printf '{"alg":"ES256","typ":"ikhnos-proof","x5c":["%s"]}' \
		"$(openssl x509 -in "$1.crt" -outform DER | openssl base64 -A)" | base64url)
	claims=$(printf '{"htm":"%s","htu":"%s","iat":%d,"exp":%d,"jti":"%s","bh":"%s"}' \
		"$2" "$3" "$now" $((now + 30)) "$(openssl rand 16 | base64url)" "$(sha256 <"$4" | base64url)" | base64url)
	printf 'Authorization: Holder %s.%s.%s\n' "$header" "$claims" "$(printf %s "$header.$claims" | es256 "$1.key")"
}

# renew OLD NEW WANTED-STATUS
renew() {
	printf '{"csr":"%s"}' "$(json_pem "$2.csr")" >body.json
	proof "$1" POST /api/v1/operator-certificates/renew body.json >proof.header
	call POST /api/v1/operator-certificates/renew "$3" \
		--header @proof.header --header 'Content-Type: application/json' --data-binary @body.json
}

say "5. Renew: the old key proves that it may, the new key gets the certificate"
new_key renewed
renew sender renewed 200
keep renewed
openssl verify -CAfile ca.crt -purpose sslclient renewed.crt
cmp -s sender.serial renewed.serial && fail "nothing was renewed"

say "   A proof is good once"
call POST /api/v1/operator-certificates/renew 401 \
	--header @proof.header --header 'Content-Type: application/json' --data-binary @body.json
member answer.json reason | grep -x proof_replayed

# ---- 6. Read the policy ----------------------------------------------------

# policy reads what the operator enforces into policy.json and checks that its CA
# has signed it.
policy() {
	: >empty
	proof receiver GET /api/v1/operator-policy empty >proof.header
	call GET /api/v1/operator-policy 200 --header @proof.header
	local header payload signature raw
	IFS=. read -r header payload signature < <(cat answer.json; echo)
	unbase64url "$header" | grep -q '"typ":"ikhnos-policy"' || fail "no policy"
	raw=$(unbase64url "$signature" | hex)
	printf 'asn1=SEQUENCE:signature\n[signature]\nr=INTEGER:0x%s\ns=INTEGER:0x%s\n' "${raw:0:64}" "${raw:64}" >signature.conf
	openssl asn1parse -genconf signature.conf -noout -out signature.der
	openssl x509 -in ca.crt -noout -pubkey >ca.pub
	printf %s "$header.$payload" | openssl dgst -sha256 -verify ca.pub -signature signature.der
	unbase64url "$payload" >policy.json
}

say "6. The policy is signed by the operator's CA and allows the sender"
policy
grep -o "\"name\":\"$name\".*" policy.json | grep -q '"state":"allowed"' || fail "not allowed"
sed 's/,"senders".*//' policy.json
echo

# ---- 7. Revoke -------------------------------------------------------------

say "7. Revoke the sender: its certificates and all that was renewed from them"
admin POST "/operators/$operator/senders/$cluster/revoke" 200 '{"reason":"compromised","note":"by hand"}'
printf 'receipt %s\n' "$(member answer.json receiptId)"
policy
grep -o "\"name\":\"$name\".*" policy.json | grep -q '"state":"revoked"' || fail "not revoked"
for serial in "$(cat sender.serial)" "$(cat renewed.serial)"; do
	grep -q "\"revokedSerials\":\[[^]]*\"$serial\"" policy.json || fail "the policy does not deny $serial"
done

say "   It cannot renew any more"
new_key late
renew renewed late 403
member answer.json reason | grep -x leaf_revoked

say "   The revocation list says so to any other program"
call GET "/api/v1/operators/$operator/crl" 200
openssl crl -inform DER -in answer.json -out crl.pem
openssl crl -in crl.pem -noout -CAfile ca.crt -issuer -lastupdate -nextupdate
openssl verify -CAfile ca.crt -crl_check -CRLfile crl.pem receiver.crt
if openssl verify -CAfile ca.crt -crl_check -CRLfile crl.pem renewed.crt >verdict.txt 2>&1; then
	fail "the list does not name the certificate"
fi
grep 'certificate revoked' verdict.txt

# ---- 8. Verify the ledger --------------------------------------------------

# Each event's hash is the SHA-256 of the hash before it and of the event as
# canonical JSON (RFC 8785), in which it is served. The first follows 32 zero
# bytes.
say "8. Walk the chain of the ledger to its head"
admin GET "/operators/$operator/ledger?after=0" 200
cp answer.json ledger.jsonl
admin GET "/operators/$operator/ledger/head" 200
head=$(member answer.json hash)
previous=$(printf '0%.0s' {1..64})
while IFS= read -r line; do
	event=${line#'{"event":'}
	event=${event%',"hash":"'*}
	previous=$({
		unhex "$previous"
		printf %s "$event"
	} | sha256 | hex)
	[ "$line" = "{\"event\":$event,\"hash\":\"$previous\"}" ] || fail "the chain is broken at: $event"
	printf '%s  %s\n' "${previous:0:16}" "$(printf %s "$event" | sed 's/.*"type":"\([a-z_]*\)".*/\1/')"
done <ledger.jsonl
[ "$previous" = "$head" ] || fail "the head is another one"
for serial in "$(cat receiver.serial)" "$(cat sender.serial)" "$(cat renewed.serial)"; do
	grep -q "\"serial\":\"$serial\"" ledger.jsonl || fail "the ledger does not know $serial"
done

say "9. Clean up; what was issued stays in the ledger"
admin DELETE "/operators/$operator?force=true" 200
admin DELETE "/clusters/$cluster" 200
rm -f ./*.token ./*.header
printf 'All checks passed. The files are in %s\n' "$PWD"
