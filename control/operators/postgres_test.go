// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestPostgres runs what has SQL of its own on PostgreSQL too.
func TestPostgres(t *testing.T) {
	base := os.Getenv("CONTINUUM_TEST_POSTGRES")
	if base == "" {
		t.Skip("CONTINUUM_TEST_POSTGRES holds no URL of a PostgreSQL whose user may create databases")
	}
	sqlite, n := database, 0
	defer func() { database = sqlite }()
	database = func(t *testing.T) string {
		n++
		return freshDatabase(t, base, fmt.Sprintf("operatorstest_%d", n))
	}
	for name, test := range map[string]func(*testing.T){
		"bootstrap": TestBootstrapOnce, "admin tokens": TestAdminTokens, "sessions": TestSessions, "pages": TestPages,
		"put cluster": TestPutCluster, "cluster labels": TestClusterLabelsReachThePolicies,
		"revoke cluster": TestRevokeClusterEverywhere, "delete cluster": TestDeleteClusterFreesItsIDLate,
		"create operator": TestCreateOperator, "put operator": TestPutOperator, "list operators": TestListOperators,
		"operator in use": TestRevokeOperatorInUse, "revoke operator": TestRevokeOperator, "delete operator": TestDeleteOperator,
		"connect": TestConnectSender, "find senders": TestFindSenders, "revoke sender": TestRevokeSender, "hold": TestHold,
		"revoke certificate": TestRevokeCertificate, "rekey": TestRekey, "rekey ends": TestRekeyEndsWithItsOverlap, "rekey again": TestRekeyAgain,
		"vouches": TestVouchesDrain, "removed": TestSweepForgetsWhatWasRemoved, "policy": TestPolicyInput,
		"tokens": TestListAndRevokeTokens, "heartbeat": TestHeartbeatSecrets, "isolation": TestOrganisationsAreIsolated,
		"audit": TestEveryChangeIsAudited, "adopt": TestAdopt, "adopt isolated": TestAdoptIsolated,
		"lost sender": TestLostSender, "prune": TestSweepPrunes,
	} {
		t.Run(name, test)
	}
}

// freshDatabase makes an empty database for one test and returns its URL.
func freshDatabase(t *testing.T, base, name string) string {
	ctx := context.Background() // the clean-up outlives the test's own
	run := func(query string) {
		conn, err := pgx.Connect(ctx, base)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, query)
		require.NoError(t, err)
	}
	run("DROP DATABASE IF EXISTS " + name)
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(base)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
