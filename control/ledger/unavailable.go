// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Unavailable reports whether err says that the database cannot be used now, for
// example because its disk is full or it cannot be reached, rather than that
// something is wrong with the request or the program. Trying again can help.
func Unavailable(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		const primary = 0xff // the rest of the code is detail
		return slices.Contains([]int{
			sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
			sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
		}, lite.Code()&primary)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) { // connection, resources, operator intervention, system
		return slices.Contains([]string{"08", "53", "57", "58"}, pg.Code[:min(2, len(pg.Code))])
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) ||
		// pgx has no name for what a connection of the pool says once its server is
		// gone; what was asked of it has not begun.
		pgconn.SafeToRetry(err)
}
