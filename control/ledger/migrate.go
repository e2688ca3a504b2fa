// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, or to version to unless that is 0. On
// PostgreSQL replicas that start together wait for each other.
func migrate(ctx context.Context, db *sql.DB, d goose.Dialect, to int64) error {
	files, err := migrationFiles(d == goose.DialectSQLite3)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if d == goose.DialectPostgres {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
		if err != nil {
			return fmt.Errorf("preparing the migration lock: %w", err)
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(d, db, files, opts...)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	sources := p.ListSources()
	newest := sources[len(sources)-1].Version
	if to == 0 {
		to = newest
	}
	if to > newest {
		return newerSchema(to, newest)
	}
	if _, err := p.UpTo(ctx, to); err != nil {
		return fmt.Errorf("bringing the schema up to date: %w", err)
	}
	current, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	if current > newest {
		return newerSchema(current, newest)
	}
	return nil
}

func newerSchema(version, newest int64) error {
	return fmt.Errorf("the database has schema version %d, this program knows %d: use a newer ikhnos", version, newest)
}

// Schema is the version of the database's schema.
func (tx *Tx) Schema() (version int64, err error) {
	if err := tx.QueryRow(`SELECT MAX(version_id) FROM goose_db_version`).Scan(&version); err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return version, nil
}

// migrationFiles are the embedded files; for SQLite with what they say for it
// alone.
func migrationFiles(sqlite bool) (fs.FS, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil || !sqlite {
		return files, err
	}
	own := fstest.MapFS{} // the simplest file system in memory
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		own[name] = &fstest.MapFile{Data: sqliteOnly.ReplaceAll(raw, []byte("$1"))}
	}
	return own, nil
}

var sqliteOnly = regexp.MustCompile(`/\* sqlite: (.*?) \*/`)
