-- +goose Up
-- Fewer pages to change for each certificate: what is appended to is a table in
-- the order of its rows, not a tree of wide keys that is balanced all the time,
-- and no index orders the certificates of one second by their random serials.
-- (In SQLite a balance may also make the commit look at every page in memory.)
/* sqlite: CREATE TABLE new_events (operator_id TEXT NOT NULL, sequence BIGINT NOT NULL, event TEXT NOT NULL, hash BYTEA NOT NULL, PRIMARY KEY (operator_id, sequence)); */
/* sqlite: INSERT INTO new_events (operator_id, sequence, event, hash) SELECT operator_id, sequence, event, hash FROM events ORDER BY operator_id, sequence; */
/* sqlite: DROP TABLE events; */
/* sqlite: ALTER TABLE new_events RENAME TO events; */
/* sqlite: CREATE TABLE new_audit (sequence INTEGER NOT NULL PRIMARY KEY, at BIGINT NOT NULL, org_id TEXT NOT NULL, actor TEXT NOT NULL, event TEXT NOT NULL, object TEXT NOT NULL, detail TEXT NOT NULL, request_id TEXT NOT NULL, address TEXT NOT NULL); */
/* sqlite: INSERT INTO new_audit (sequence, at, org_id, actor, event, object, detail, request_id, address) SELECT sequence, at, org_id, actor, event, object, detail, request_id, address FROM audit ORDER BY sequence; */
/* sqlite: DROP TABLE audit; */
/* sqlite: ALTER TABLE new_audit RENAME TO audit; */
/* sqlite: CREATE INDEX audit_by_org ON audit (org_id, sequence); */

-- Used proofs are taken out in the order of their key, see Tx.UseProof.
DROP INDEX used_proofs_by_end;

-- The holder's index alone counts its living leaves.
DROP INDEX entries_by_holder;
CREATE INDEX entries_by_holder ON entries (operator_id, holder, role, not_after, sequence, revoked_at);
DROP INDEX entries_by_end;
CREATE INDEX entries_by_end ON entries (operator_id, not_after, sequence);
