-- +goose Up
-- One schema for SQLite and PostgreSQL: TEXT, BIGINT and BYTEA (SQLite gives
-- BYTEA no meaning and stores what it gets). What stands in a comment that opens
-- with "sqlite:" is for SQLite alone: it halves the pages that a row touches. Times are Unix seconds, UTC, unless
-- the column ends in _ms. JSON is TEXT, written and read by Go alone.

-- What there is one of: epoch and change number, key sealing, the server CA.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);

-- The order of all changes that a policy may show. One row.
CREATE TABLE change_counter (
    id     BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    epoch  BIGINT NOT NULL,
    number BIGINT NOT NULL
);
INSERT INTO change_counter (id, epoch, number) VALUES (1, 1, 0);

CREATE TABLE organisations (
    id         TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE admin_tokens (
    id          TEXT NOT NULL PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    name        TEXT NOT NULL,
    role        TEXT NOT NULL,
    secret_hash BYTEA NOT NULL UNIQUE,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT
);

CREATE TABLE sessions (
    secret_hash    BYTEA NOT NULL PRIMARY KEY,
    admin_token_id TEXT NOT NULL REFERENCES admin_tokens (id) ON DELETE CASCADE,
    csrf           TEXT NOT NULL,
    expires_at     BIGINT NOT NULL
);

CREATE TABLE clusters (
    org_id         TEXT NOT NULL REFERENCES organisations (id),
    id             TEXT NOT NULL,
    kind           TEXT NOT NULL,
    labels         TEXT NOT NULL,
    tenant_account BIGINT,
    tenant_project BIGINT,
    silent_after   BIGINT NOT NULL,
    state          TEXT NOT NULL, -- pending, approved, revoked
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    approved_at    BIGINT,
    approved_by    TEXT,
    PRIMARY KEY (org_id, id)
);

-- Ids of operators are unique on the server and never used again: a deleted
-- operator stays as a row in state deleted.
CREATE TABLE operators (
    id                   TEXT NOT NULL PRIMARY KEY,
    org_id               TEXT NOT NULL REFERENCES organisations (id),
    name                 TEXT NOT NULL,
    role                 TEXT NOT NULL, -- regional, central
    destination_kind     TEXT NOT NULL, -- '', otlp, operator
    destination_endpoint TEXT NOT NULL,
    destination_operator TEXT NOT NULL,
    labels               TEXT NOT NULL,
    source_clusters      TEXT NOT NULL, -- JSON array
    address              TEXT NOT NULL,
    exposure             TEXT NOT NULL,
    heartbeat            TEXT NOT NULL, -- off, on
    heartbeat_hash       BYTEA UNIQUE,
    last_seen_at         BIGINT,
    last_beat            TEXT NOT NULL,
    state                TEXT NOT NULL, -- active, revoked, deleted
    client_ca_cert       BYTEA NOT NULL, -- DER
    client_ca_key        BYTEA, -- sealed; NULL once erased
    client_ca_spki       TEXT NOT NULL, -- lower-case hex
    last_policy          TEXT NOT NULL, -- the deny-all JWS of a revoked operator
    last_crl             BYTEA, -- the last CRL of a revoked operator
    change_number        BIGINT NOT NULL, -- of the last change its policy shows
    recovered_epoch      BIGINT NOT NULL DEFAULT 0, -- newest in which it reported what it denies
    created_at           BIGINT NOT NULL,
    revoked_at           BIGINT
);
CREATE INDEX operators_by_org ON operators (org_id, id);
CREATE INDEX operators_by_destination ON operators (destination_operator);

-- Who may send to an operator: the holder is a cluster or an operator of the
-- same organisation.
CREATE TABLE senders (
    operator_id      TEXT NOT NULL REFERENCES operators (id),
    holder_id        TEXT NOT NULL,
    name             TEXT NOT NULL,
    kind             TEXT NOT NULL, -- cluster, operator
    org_id           TEXT NOT NULL,
    state            TEXT NOT NULL, -- allowed, held, revoked
    since_epoch      BIGINT NOT NULL,
    since_number     BIGINT NOT NULL,
    address          TEXT NOT NULL,
    replaced_serials TEXT NOT NULL, -- JSON array, of a rekey in progress
    replaced_until   BIGINT,
    receipt_id       TEXT NOT NULL, -- of the last revocation
    created_at       BIGINT NOT NULL,
    removed_at       BIGINT, -- still vouched for 24 h after
    PRIMARY KEY (operator_id, holder_id)
);
CREATE UNIQUE INDEX senders_by_name ON senders (operator_id, name);
CREATE INDEX senders_by_holder ON senders (org_id, holder_id);

CREATE TABLE enrollment_tokens (
    id          TEXT NOT NULL PRIMARY KEY,
    org_id      TEXT NOT NULL,
    operator_id TEXT NOT NULL REFERENCES operators (id),
    role        TEXT NOT NULL, -- receiver, sender
    holder_id   TEXT NOT NULL, -- of a receiver the operator's id
    secret_hash BYTEA NOT NULL UNIQUE,
    epoch       BIGINT NOT NULL,
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    state       TEXT NOT NULL, -- open, spent, revoked
    spent_spki  TEXT NOT NULL, -- the key it was spent for, lower-case hex
    spent_at    BIGINT
);
CREATE INDEX enrollment_tokens_by_operator ON enrollment_tokens (operator_id, role, holder_id);

-- The ledger: what was issued, never certificate or key. state valid, superseded,
-- revoked, ended follows from revoked_at, superseded_at and not_after.
CREATE TABLE entries (
    operator_id   TEXT NOT NULL REFERENCES operators (id),
    serial        TEXT NOT NULL,
    sequence      BIGINT NOT NULL, -- of its issued event
    holder        TEXT NOT NULL,   -- the whole name
    holder_id     TEXT NOT NULL,
    kind          TEXT NOT NULL,
    role          TEXT NOT NULL,
    issuer        TEXT NOT NULL, -- subject key id of the CA, lower-case hex
    parent        TEXT NOT NULL, -- serial it was renewed from, '' after enrolment
    not_before    BIGINT NOT NULL,
    not_after     BIGINT NOT NULL,
    renew_after   BIGINT NOT NULL,
    renew_by      BIGINT NOT NULL,
    spki          TEXT NOT NULL, -- SHA-256 of the public key, lower-case hex
    requested_by  TEXT NOT NULL,
    issued_at     BIGINT NOT NULL,
    superseded_at BIGINT,
    revoked_at    BIGINT,
    revoke_reason TEXT NOT NULL,
    PRIMARY KEY (operator_id, serial)
);
CREATE UNIQUE INDEX entries_by_sequence ON entries (operator_id, sequence);
CREATE UNIQUE INDEX entries_by_spki ON entries (spki); -- one certificate per key
CREATE INDEX entries_by_holder ON entries (operator_id, holder, role, not_after, serial);
CREATE INDEX entries_by_end ON entries (operator_id, not_after, serial);
-- One newest entry per holder and role.
CREATE UNIQUE INDEX entries_newest ON entries (operator_id, holder, role) WHERE superseded_at IS NULL;
CREATE INDEX entries_revoked ON entries (operator_id, not_after) WHERE revoked_at IS NOT NULL;

-- The hash chain, one per operator: hash = SHA-256(previous || RFC 8785 of event).
CREATE TABLE events (
    operator_id TEXT NOT NULL,
    sequence    BIGINT NOT NULL,
    event       TEXT NOT NULL,
    hash        BYTEA NOT NULL,
    PRIMARY KEY (operator_id, sequence)
) /* sqlite: WITHOUT ROWID */;

-- Holder proofs that were used, until they can no longer be fresh.
CREATE TABLE used_proofs (
    leaf       TEXT NOT NULL, -- operator id and serial
    jti        TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (leaf, jti)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX used_proofs_by_end ON used_proofs (expires_at);

-- Leaves by a CA of ours that the ledger lacks, as proofs brought them: after a
-- restore, cert adopt admits them.
CREATE TABLE unknown_leaves (
    operator_id TEXT NOT NULL,
    serial      TEXT NOT NULL,
    leaf        BYTEA NOT NULL, -- DER
    seen_at     BIGINT NOT NULL,
    PRIMARY KEY (operator_id, serial)
);
CREATE INDEX unknown_leaves_by_age ON unknown_leaves (seen_at);

-- Names and serials that an operator denied before a restore and that the
-- restored store knows nothing of: they are never adopted.
CREATE TABLE lost_denials (
    operator_id TEXT NOT NULL,
    kind        TEXT NOT NULL, -- name, serial
    value       TEXT NOT NULL,
    denied_at   BIGINT NOT NULL,
    PRIMARY KEY (operator_id, kind, value)
);

-- The newest report of each operator instance.
CREATE TABLE reports (
    operator_id  TEXT NOT NULL,
    instance     TEXT NOT NULL,
    epoch        BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    report       TEXT NOT NULL, -- JSON as received
    reported_at  BIGINT NOT NULL,
    PRIMARY KEY (operator_id, instance)
);

CREATE TABLE receipts (
    id              TEXT NOT NULL PRIMARY KEY,
    org_id          TEXT NOT NULL,
    subject         TEXT NOT NULL, -- what was revoked, for people
    epoch           BIGINT NOT NULL,
    number          BIGINT NOT NULL,
    committed_at_ms BIGINT NOT NULL
);
CREATE INDEX receipts_by_org ON receipts (org_id, committed_at_ms);

-- Who has to confirm a receipt, and what it said when it did.
CREATE TABLE receipt_instances (
    receipt_id          TEXT NOT NULL REFERENCES receipts (id),
    operator_id         TEXT NOT NULL,
    instance            TEXT NOT NULL,
    sender              TEXT NOT NULL, -- name whose acceptance is shown, '' for all
    applied_at_ms       BIGINT,
    last_accepted_at_ms BIGINT,
    first_refused_at_ms BIGINT,
    PRIMARY KEY (receipt_id, operator_id, instance)
);
CREATE INDEX receipt_instances_by_operator ON receipt_instances (operator_id, instance);

CREATE TABLE audit (
    sequence   BIGINT NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    org_id     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    event      TEXT NOT NULL,
    object     TEXT NOT NULL,
    detail     TEXT NOT NULL, -- JSON object
    request_id TEXT NOT NULL,
    address    TEXT NOT NULL
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX audit_by_org ON audit (org_id, sequence);
