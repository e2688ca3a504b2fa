// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// servedDocument is what the tests read of the served API document.
type servedDocument struct {
	Paths      map[string]map[string]servedOperation
	Components struct {
		Schemas         map[string]servedSchema
		SecuritySchemes map[string]map[string]any
	}
}

type servedOperation struct {
	Summary, Description string
	Security             []map[string][]string
	Parameters           []struct {
		Name, In, Description string
		Required              bool
		Schema                servedSchema
	}
	RequestBody *struct {
		Required bool
		Content  map[string]struct{ Schema servedSchema }
	}
	Responses map[string]struct {
		Description string
		Headers     map[string]any
		Content     map[string]struct{ Schema servedSchema }
	}
}

type servedSchema struct {
	Type                 any
	Ref                  string `json:"$ref"`
	Description          string
	Enum                 []string
	Minimum, Maximum     *float64
	Default              any
	Properties           map[string]servedSchema
	Required             []string
	Items                *servedSchema
	AdditionalProperties any
	ContentSchema        *servedSchema
}

func (h *harness) served() (doc servedDocument) {
	h.t.Helper()
	a := h.send(h.request(http.MethodGet, "/api/openapi.json", "", nil))
	require.Equal(h.t, http.StatusOK, a.StatusCode)
	a.decode(h.t, &doc)
	return doc
}

// contractOperations are the lines of contract section 4: the role or the scheme that
// authenticates, the parameters of the query, the body, the status of a success
// and its body. O stands for the organisation's path.
var contractOperations = map[string]string{
	"POST /api/v1/orgs": "server | | OrgRequest | 201 Org",
	"GET /api/v1/orgs":  "server | limit cursor | | 200 ListOrg",

	"PUT O/clusters/{id}":          "connector | | ClusterRequest | 200 201 Cluster",
	"POST O/clusters":              "connector | | ClusterRequest | 201 Cluster",
	"GET O/clusters":               "viewer | limit cursor state kind | | 200 ListCluster",
	"GET O/clusters/{id}":          "viewer | | | 200 Cluster",
	"POST O/clusters/{id}/approve": "connector | | | 200 Cluster",
	"POST O/clusters/{id}/revoke":  "admin | wait | NoteRequest? | 200 Receipt",
	"DELETE O/clusters/{id}":       "admin | wait | | 200 Receipt",

	"PUT O/operators/{id}":            "admin | | OperatorRequest | 200 201 Operator",
	"POST O/operators":                "admin | | OperatorRequest | 201 Operator",
	"GET O/operators":                 "viewer | limit cursor state role | | 200 ListOperator",
	"GET O/operators/{id}":            "viewer | | | 200 Operator",
	"PATCH O/operators/{id}":          "admin | | AddressBody | 200 Operator",
	"POST O/operators/{id}/revoke":    "admin | force wait | NoteRequest? | 200 Removal",
	"DELETE O/operators/{id}":         "admin | force wait | | 200 Removal",
	"POST O/operators/{id}/install":   "connector | | InstallRequest? | 200 Install",
	"POST O/operators/{id}/heartbeat": "admin | | | 200 HeartbeatSecret",

	"PUT O/operators/{id}/senders/{holder}":          "connector | | SenderRequest? | 200 201 Sender",
	"GET O/operators/{id}/senders":                   "viewer | limit cursor | | 200 ListSenderStatus",
	"POST O/operators/{id}/senders/{holder}/revoke":  "admin | wait | RevokeRequest | 200 Receipt",
	"POST O/operators/{id}/senders/{holder}/restore": "admin | | | 200 SenderToken",
	"POST O/operators/{id}/senders/{holder}/rekey":   "admin | | RekeyRequest? | 200 SenderToken",

	"POST O/operators/{id}/enrollment-tokens":           "connector | | TokenRequest | 201 Token",
	"GET O/operators/{id}/enrollment-tokens":            "connector | limit cursor | | 200 ListToken",
	"DELETE O/operators/{id}/enrollment-tokens/{token}": "connector | | | 204",

	"GET O/operators/{id}/certificates":                  "viewer | limit cursor holder role state endsBefore newest | | 200 ListEntry",
	"GET O/certificates":                                 "viewer | limit cursor holder role state endsBefore newest operator | | 200 ListEntry",
	"POST O/operators/{id}/certificates/{serial}/revoke": "admin | wait | NoteRequest? | 200 Receipt",

	"GET O/senders":                    "viewer | limit cursor operator cluster state | | 200 ListSenderStatus",
	"GET O/summary":                    "viewer | | | 200 Summary",
	"GET O/receipts/{receipt}":         "viewer | wait | | 200 Receipt",
	"GET O/audit":                      "viewer | limit cursor actor event object since | | 200 ListRecord",
	"GET O/operators/{id}/ledger/head": "viewer | | | 200 LedgerHead",
	"GET O/operators/{id}/ledger":      "viewer | after | | 200 application/jsonl",
	"GET O/events":                     "viewer | | | 200 text/event-stream",

	"POST O/admin-tokens":           "admin | | AdminTokenRequest | 201 AdminToken",
	"GET O/admin-tokens":            "admin | limit cursor | | 200 ListAdminToken",
	"DELETE O/admin-tokens/{token}": "admin | | | 204",

	"POST /api/v1/operator-certificates/enroll": " | | EnrollRequest | 200 Certificate",
	"POST /api/v1/operator-certificates/renew":  "holderProof | | RenewRequest | 200 Certificate",
	"GET /api/v1/operator-policy":               "holderProof | wait | | 200 application/jose",
	"POST /api/v1/operator-policy/report":       "holderProof | | Report | 204",
	"GET /api/v1/operators/{id}/crl":            " | | | 200 application/pkix-crl",
	"POST /api/v1/operator-heartbeat":           "heartbeatSecret | | Heartbeat? | 200",
	"GET /healthz":                              " | | | 200 Probe",
	"GET /readyz":                               " | | | 200 Probe",
	"GET /help/errors/{reason}":                 " | | | 200 text/html",
}

// Contract, section 4: the document has every line of it, as it is there.
func TestOpenAPIAgreesWithTheContract(t *testing.T) {
	doc := newHarness(t).served()
	for route, want := range contractOperations {
		method, path, _ := strings.Cut(route, " ")
		path = strings.Replace(path, "O/", orgPath+"/", 1)
		op, ok := doc.Paths[path][strings.ToLower(method)]
		if assert.True(t, ok, route) {
			assert.Equal(t, strings.Fields(want), strings.Fields(lineOf(op)), route)
		}
	}
	assert.Equal(t, []string{"ETag"}, slices.Collect(maps.Keys(doc.Paths[controlapi.RoutePolicy]["get"].Responses["304"].Headers)))
	assert.Equal(t, "#/components/schemas/Policy", doc.Paths[controlapi.RoutePolicy]["get"].Responses["200"].Content[policyMedia].Schema.ContentSchema.Ref)
	assert.Contains(t, doc.Paths[controlapi.RouteHeartbeat]["post"].RequestBody.Content, "*/*", "any other body is drained")
}

// Every reference of the document leads somewhere.
func TestReferencesOfTheDocument(t *testing.T) {
	h := newHarness(t)
	text := string(h.send(h.request(http.MethodGet, "/api/openapi.json", "", nil)).body)
	schemas, refs := h.served().Components.Schemas, strings.Split(text, `"$ref":"`)
	for _, ref := range refs[1:] {
		ref, _, _ = strings.Cut(ref, `"`)
		assert.Contains(t, schemas, refName(ref))
	}
	assert.Greater(t, len(refs), 100)
	for path, methods := range h.served().Paths {
		for method, op := range methods {
			for status, answer := range op.Responses {
				_, waits := answer.Headers["Retry-After"]
				assert.Equal(t, status == "429", waits, "%s %s %s", method, path, status)
			}
		}
	}
}

// lineOf writes an operation as a line of contractOperations.
func lineOf(op servedOperation) string {
	who := ""
	for scheme := range op.firstSecurity() {
		who = scheme
	}
	if who == adminToken {
		who = strings.TrimSuffix(strings.TrimPrefix(op.Description, "Smallest role: "), ".")
	}
	var query, status []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			query = append(query, p.Name)
		}
	}
	body, answer := "", ""
	if op.RequestBody != nil {
		body = refName(op.RequestBody.Content["application/json"].Schema.Ref)
		if !op.RequestBody.Required {
			body += "?"
		}
	}
	for code, response := range op.Responses {
		if code < "200" || code > "299" {
			continue
		}
		status = append(status, code)
		for media, content := range response.Content {
			answer = media
			if content.Schema.Ref != "" {
				answer = refName(content.Schema.Ref)
			}
		}
	}
	slices.Sort(status)
	return fmt.Sprintf("%s | %s | %s | %s %s", who, strings.Join(query, " "), body, strings.Join(status, " "), answer)
}

// firstSecurity is the first alternative that authenticates.
func (op servedOperation) firstSecurity() map[string][]string {
	if len(op.Security) == 0 {
		return nil
	}
	return op.Security[0]
}

func refName(ref string) string { return strings.TrimPrefix(ref, schemaPrefix) }

// contractShapes are the members that contract sections 4, 5, 7 and 11 list, "?"
// behind those that may be missing.
var contractShapes = map[string]string{
	"Problem":           "type title status detail reason retryable remedy requestId serverTime? errors? dependents?",
	"OrgRequest":        "id name",
	"Org":               "id name adminToken?",
	"ClusterRequest":    "id? kind? labels? tenant? silentAfter?",
	"Tenant":            "account project",
	"OperatorRequest":   "id? name role? destination? labels? sourceClusterIds? heartbeat? exposure?",
	"Destination":       "kind endpoint? operatorId?",
	"AddressBody":       "address",
	"SenderRequest":     "address?",
	"RevokeRequest":     "reason note?",
	"NoteRequest":       "note?",
	"RekeyRequest":      "overlap?",
	"SenderToken":       "name token?",
	"TokenRequest":      "role sender? ttl?",
	"Token":             "tokenId token? role name state createdAt createdBy expiresAt",
	"AdminTokenRequest": "name role expiresAt?",
	"HeartbeatSecret":   "secret",
	"EnrollRequest":     "token csr",
	"RenewRequest":      "csr",
	"Certificate":       "certificate ca serial role name notBefore notAfter renewAfter renewBy",
	"Policy":            "operatorId epoch number issuedAt mode operator senders revokedSerials crl",
	"PolicyOperator":    "name labels",
	"PolicySender":      "name uri kind orgId clusterId? operatorId? operatorName? labels tenant? state since vouches replaced?",
	"Vouch":             "orgId clusterId labels",
	"Replaced":          "serials until",
	"Report":            "instance version startedAt policy receiverSerial clockOffsetMs senders denied?",
	"ReportPolicy":      "epoch number appliedAt appliedAtMs?",
	"ReportSender":      "name serial? lastAcceptedAt? lastAcceptedAtMs? firstRefusedAtMs? accepted refused?",
	"ReportDenied":      "names serials",
	"SignalCounts":      "traces metrics logs",
	"Receipt":           "receiptId committedAt committedAtMs number instances",
	"ReceiptInstance":   "operator instance state appliedAt? appliedAtMs? lastAcceptedAt? lastAcceptedAtMs? firstRefusedAt? firstRefusedAtMs?",
	"Removal":           "receiptId committedAt committedAtMs number instances uninstall",
	"Heartbeat":         "version instance startedAt status certificates policy",
	"LedgerEntry": "operatorId serial holder kind role issuer parent notBefore notAfter renewAfter renewBy spkiSha256 " +
		"requestedBy issuedAt state revokedAt revokeReason",
	"LedgerHead": "operatorId sequence hash",
	"ListEntry":  "items nextCursor",
}

// contractWords are the enums that the contract lists.
var contractWords = map[string]string{
	"ClusterRequest.kind": "kubernetes host", "OperatorRequest.role": "regional central", "OperatorRequest.heartbeat": "off on",
	"OperatorRequest.exposure": "cluster node_port load_balancer", "Destination.kind": "otlp operator",
	"RevokeRequest.reason": "compromised retired hold", "TokenRequest.role": "receiver sender", "AdminTokenRequest.role": "viewer connector admin server",
	"Certificate.role": "receiver sender", "Policy.mode": "enforce deny_all", "PolicySender.kind": "cluster operator",
	"PolicySender.state": "allowed held revoked", "ReceiptInstance.state": "confirmed pending unreachable",
	"Heartbeat.status": "ok recoverable_error permanent_error", "HeartbeatCertificate.state": "usable overdue refused expired",
	"LedgerEntry.state": "valid superseded revoked ended", "LedgerEntry.role": "receiver sender", "LedgerEntry.kind": "cluster operator",
	"Operator.clientCaScope": "operator org", "Problem.reason": "request_malformed validation_failed destination_not_allowed body_too_large " +
		"media_type_unsupported method_not_allowed not_found admin_unauthenticated forbidden cross_site_refused name_taken in_use state_conflict " +
		"managed cluster_not_approved token_unknown token_expired token_revoked token_spent csr_invalid key_unsupported key_in_use proof_invalid " +
		"clock_skew proof_replayed leaf_unknown leaf_not_in_ledger leaf_ended leaf_revoked sender_held sender_revoked operator_revoked role_wrong " +
		"ca_ended too_many_certificates rate_limited ledger_rollback heartbeat_unauthorized unavailable internal",
}

// Contract, sections 4, 5, 7, 9 and 11: the members of every shape, and the words.
func TestSchemasAgreeWithTheContract(t *testing.T) {
	doc := newHarness(t).served()
	for name, want := range contractShapes {
		schema, ok := doc.Components.Schemas[name]
		require.True(t, ok, name)
		var got []string
		for member := range schema.Properties {
			if !slices.Contains(schema.Required, member) {
				member += "?"
			}
			got = append(got, member)
		}
		assert.ElementsMatch(t, strings.Fields(want), got, name)
		assert.Equal(t, false, schema.AdditionalProperties, name)
	}
	for field, want := range contractWords {
		name, member, _ := strings.Cut(field, ".")
		got := slices.DeleteFunc(slices.Clone(doc.Components.Schemas[name].Properties[member].Enum), func(w string) bool { return w == "" })
		assert.ElementsMatch(t, strings.Fields(want), got, field)
	}
	assert.Equal(t, "4294967295", number64(*doc.Components.Schemas["Tenant"].Properties["account"].Maximum), "as far as the server reads")
	for name, schema := range doc.Components.Schemas {
		for member, property := range schema.Properties {
			if property.Items != nil {
				assert.Equal(t, "array", property.Type, "%s.%s: a list is never null", name, member)
			}
		}
	}
}

// Every Go type of our own that is text has its words in the document.
func TestEveryEnumHasItsWords(t *testing.T) {
	document := newHarness(t).api.document
	n := 0
	for name := range document.Components.Schemas.Map() {
		for member, field := range fieldsOf(document.Components.Schemas.TypeFromRef(schemaPrefix + name)) {
			for field.Kind() == reflect.Pointer || field.Kind() == reflect.Slice {
				field = field.Elem()
			}
			if field.Kind() == reflect.String && field.PkgPath() != "" {
				n++
				assert.NotEmpty(t, typeWords[field], "%s.%s is a %s", name, member, field)
			}
		}
	}
	assert.Greater(t, n, 30)
	for field := range fieldWords {
		name, member, _ := strings.Cut(field, ".")
		schema := document.Components.Schemas.Map()[name]
		require.NotNil(t, schema, field)
		assert.NotNil(t, schema.Properties[member], field)
	}
}

// What the document says of a parameter is what the server takes: every word and
// both bounds, and nothing beside them.
func TestParametersAreTakenAsDocumented(t *testing.T) {
	h := newHarness(t)
	fill := strings.NewReplacer("{org}", "default", "{id}", "op-none", "{holder}", "c-none", "{token}", "t", "{serial}", "ab", "{receipt}", "r")
	n := 0
	for path, methods := range h.served().Paths {
		for method, op := range methods {
			if op.firstSecurity()[adminToken] == nil {
				continue
			}
			try := func(name, value string) int {
				body := any(nil)
				if op.RequestBody != nil {
					body = `{"reason":"hold"}`
					if refName(op.RequestBody.Content["application/json"].Schema.Ref) != "RevokeRequest" {
						body = "{}"
					}
				}
				n++
				return h.send(h.request(strings.ToUpper(method), fill.Replace(path)+"?"+name+"="+value, h.token, body)).StatusCode
			}
			for _, p := range op.Parameters {
				if p.In != "query" {
					continue
				}
				var good, bad []string
				switch {
				case p.Schema.Enum != nil:
					good, bad = p.Schema.Enum, []string{"nothing-of-these"}
				case p.Schema.Maximum != nil:
					good = []string{number64(*p.Schema.Minimum), number64(*p.Schema.Maximum)}
					bad = []string{number64(*p.Schema.Minimum - 1), number64(*p.Schema.Maximum + 1), "x", ""}
				}
				for _, value := range good {
					assert.NotEqual(t, http.StatusBadRequest, try(p.Name, value), "%s %s?%s=%s", method, path, p.Name, value)
				}
				for _, value := range bad {
					assert.Equal(t, http.StatusBadRequest, try(p.Name, value), "%s %s?%s=%s", method, path, p.Name, value)
				}
			}
		}
	}
	assert.Greater(t, n, 100)
}

func number64(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
