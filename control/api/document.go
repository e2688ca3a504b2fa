// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/version"
)

// Security schemes of the administration in the API document.
const (
	adminToken = "adminToken"
	webSession = "session"
)

const schemaPrefix = "#/components/schemas/"

const documentText = `Times are RFC 3339 in UTC and whole seconds; members whose name ends in Ms are Unix milliseconds. ` +
	`Serials and hashes are lower-case hex. Durations are text such as 90s or 1h. ` +
	`Unknown members of a request and members twice are refused, in the administration also parameters that an operation does not list. ` +
	`Lists answer items and nextCursor, which is empty with the last. Secrets are shown once. ` +
	`Every refusal is application/problem+json with a reason of the closed list, explained under its type. ` +
	`What belongs to another organisation is answered like what does not exist.`

// newDocument begins the API document; sessions says that the administration also
// takes the session of the web page.
func newDocument(sessions bool) *huma.OpenAPI {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Ikhnos control server", Version: version.Version, Description: documentText},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry(schemaPrefix, schemaName),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				adminToken:      {Type: "http", Scheme: "bearer", Description: "An admin token, ikadm_…"},
				holderProof:     {Type: "http", Scheme: "Holder", Description: "A compact JWS signed by the key of a leaf, for this request alone and good once"},
				heartbeatSecret: {Type: "http", Scheme: "bearer", Description: "An operator's heartbeat secret, ikhb_…"},
			},
		},
	}
	if sessions {
		doc.Components.SecuritySchemes[webSession] = &huma.SecurityScheme{
			Type: "apiKey", In: "cookie", Name: "__Host-ikhnos_session", Description: "A sign-in of the web page, from that page alone",
		}
	}
	doc.Components.Schemas.Schema(reflect.TypeFor[controlapi.Problem](), true, "")
	doc.Components.Schemas.Schema(reflect.TypeFor[controlapi.Policy](), true, "")
	return doc
}

// schemaName names a schema after its Go type; the items of a list come along.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if strings.HasSuffix(t.PkgPath(), "/ledger") {
		return "Ledger" + name
	}
	return name
}

// describe enters an operation into the API document.
func (s *Server) describe(e endpoint, in, out reflect.Type) *huma.Operation {
	op := &huma.Operation{
		OperationID: operationID(e.method, e.path),
		Method:      e.method,
		Path:        e.path,
		Summary:     e.summary,
		Description: machineTexts[e.method+" "+e.path],
		Responses:   map[string]*huma.Response{"default": problemResponse("A refusal: RFC 9457 with a reason of the closed list")},
	}
	if e.role != "" {
		e.security = adminToken
		op.Description = "Smallest role: " + string(e.role) + "."
	}
	if e.security != "" {
		op.Security = []map[string][]string{{e.security: {}}}
	}
	if _, sessions := s.document.Components.SecuritySchemes[webSession]; sessions && e.role != "" {
		op.Security = append(op.Security, map[string][]string{webSession: {}})
	}
	for _, name := range pathParameter.FindAllStringSubmatch(e.path, -1) {
		op.Parameters = append(op.Parameters, pathParam(e.path, name[1]))
	}
	for _, name := range e.query {
		op.Parameters = append(op.Parameters, parameterOf(e.path, name).param(name))
	}
	if in != reflect.TypeFor[none]() {
		op.RequestBody = s.describeBody(e, in)
	}
	status, success := s.describeSuccess(e, out)
	for _, each := range status {
		op.Responses[fmt.Sprint(each)] = success
	}
	if e.conditional {
		op.Parameters = append(op.Parameters, &huma.Param{Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: "string"}})
		op.Responses[fmt.Sprint(http.StatusNotModified)] = &huma.Response{Description: "Nothing has changed", Headers: headers("ETag")}
		success.Headers = headers("ETag")
	}
	for status, reasons := range byStatus(refusalsOf(e, in)) {
		op.Responses[fmt.Sprint(status)] = problemResponse(reasons, problemHeaders[status]...)
	}
	s.document.AddOperation(op)
	return op
}

// ownPaths enters what the server tells of itself.
func (s *Server) ownPaths() {
	nothing := reflect.TypeFor[none]()
	s.describe(endpoint{method: http.MethodGet, path: "/api/openapi.json", media: "application/json", summary: "This document"}, nothing, nothing)
	s.describe(endpoint{method: http.MethodGet, path: helpPath + "{reason}", media: "text/html", summary: "What a reason means and what to do"}, nothing, nothing)
}

// describeBody is what an operation reads; a heartbeat takes anything.
func (s *Server) describeBody(e endpoint, in reflect.Type) *huma.RequestBody {
	body := &huma.RequestBody{Required: !e.bodyOptional, Content: map[string]*huma.MediaType{
		"application/json": {Schema: s.document.Components.Schemas.Schema(in, true, in.Name())},
	}}
	if e.security == heartbeatSecret {
		body.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Description: "Any other body of at most 1 MiB is drained."}}
	}
	return body
}

// describeSuccess is what an operation answers that succeeds, and by which status:
// a PUT says by it whether it created something.
func (s *Server) describeSuccess(e endpoint, out reflect.Type) (status []int, success *huma.Response) {
	success = &huma.Response{Description: "Done"}
	if a, ok := reflect.Zero(out).Interface().(interface{ bodyType() reflect.Type }); ok {
		out, status = a.bodyType(), []int{http.StatusCreated}
		success.Description = "Done; 201 when it was created"
	}
	switch {
	case e.media != "":
		success.Content = map[string]*huma.MediaType{e.media: {Schema: streams[e.media]}}
	case out != reflect.TypeFor[none]():
		success.Content = map[string]*huma.MediaType{"application/json": {Schema: s.document.Components.Schemas.Schema(out, true, out.Name())}}
	case e.status == 0:
		return []int{http.StatusNoContent}, success
	}
	return append(status, cmp.Or(e.status, http.StatusOK)), success
}

// streams are the bodies that are not one JSON document.
var streams = map[string]*huma.Schema{
	policyMedia: {
		Type: "string", Description: "A compact JWS: header {alg: ES256, typ: ikhnos-policy}, payload of the schema Policy, signed by the operator's CA.",
		Extensions: map[string]any{"contentSchema": map[string]string{"$ref": schemaPrefix + "Policy"}},
	},
	controlapi.CRLContentType: {Type: "string", Format: "binary", Description: "A CRL (RFC 5280), DER."},
	chainMedia: {Type: "string", Description: `One event a line: {"event": {"sequence", "operatorId", "type", "at", …}, "hash"}; the hash is ` +
		`SHA-256 over the hash before it, 32 zero bytes before the first, and the event as canonical JSON (RFC 8785).`},
	"application/json": {Type: "object"},
	"text/html":        {Type: "string"},
	eventMedia:         {Type: "string", Description: `Events of the name change with the data {"epoch", "number"}: something has changed.`},
}

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// operationID is a stable name for generated clients: put-orgs-clusters.
func operationID(method, path string) string {
	words := []string{strings.ToLower(method)}
	for _, element := range strings.Split(strings.TrimPrefix(path, "/api/"), "/") {
		if element != "v1" {
			words = append(words, strings.Trim(element, "{}"))
		}
	}
	return strings.Join(words, "-")
}

func headers(names ...string) map[string]*huma.Param {
	all := map[string]*huma.Param{}
	for _, name := range names {
		all[name] = &huma.Param{Schema: &huma.Schema{Type: "string"}}
	}
	return all
}

// problemHeaders are those of a refusal, by its status, beside its id.
var problemHeaders = map[int][]string{http.StatusUnauthorized: {"WWW-Authenticate"}, http.StatusTooManyRequests: {"Retry-After"}}

func problemResponse(description string, own ...string) *huma.Response {
	return &huma.Response{
		Description: description,
		Headers:     headers(append(own, "X-Request-Id")...),
		Content:     map[string]*huma.MediaType{controlapi.ProblemContentType: {Schema: &huma.Schema{Ref: schemaPrefix + "Problem"}}},
	}
}

// finishDocument says of every schema what huma does not see in Go types: which
// words a text may be, and how far a number goes. No answer has null for a list.
func finishDocument(doc *huma.OpenAPI) {
	all := doc.Components.Schemas
	for name, schema := range all.Map() {
		fields := fieldsOf(all.TypeFromRef(schemaPrefix + name))
		for field, property := range schema.Properties {
			nameWords(property, fields[field])
			if words, ok := fieldWords[name+"."+field]; ok {
				property.Enum = words
			}
		}
	}
}

// nameWords enters the words and bounds of a type.
func nameWords(s *huma.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && s.Items != nil {
		s.Nullable = false
		nameWords(s.Items, t.Elem())
		return
	}
	if words, ok := typeWords[t]; ok {
		s.Enum = words
	}
	if t.Kind() == reflect.Uint32 { // huma calls it an int32, of which half are missing
		s.Format, s.Maximum = "int64", number(math.MaxUint32)
	}
}
