// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import "time"

// AdminRole is what the holder of an admin token may do: each role may do what
// the ones before it may.
type AdminRole string

// Admin roles, weakest first. RoleServer administers every organisation.
const (
	RoleViewer    AdminRole = "viewer"
	RoleConnector AdminRole = "connector"
	RoleAdmin     AdminRole = "admin"
	RoleServer    AdminRole = "server"
)

// AdminToken opens the administration. Token holds the secret in the answer to
// its creation alone; one without ExpiresAt does not end.
type AdminToken struct {
	TokenID   string     `json:"tokenId"`
	Token     string     `json:"token,omitempty"`
	Name      string     `json:"name"`
	Role      AdminRole  `json:"role"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// AdminTokenRequest creates an admin token.
type AdminTokenRequest struct {
	Name      string     `json:"name" maxLength:"63"`
	Role      AdminRole  `json:"role"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"In the future; without it the token does not end."`
}

// Page asks for a part of a list: at most Limit items (1 to 500, 0 for 100) after
// the cursor that the part before answered.
type Page struct {
	Limit  int
	Cursor string
}

// List is one part of a list; NextCursor is empty with the last.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"nextCursor"`
}

// Actor is who asks, on behalf of which organisation. Name is the admin token's.
type Actor struct {
	OrgID     string
	Name      string
	Role      AdminRole
	TokenID   string // the admin token's own id
	RequestID string
	Address   string
}
