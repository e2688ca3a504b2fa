-- +goose Up
-- Used proofs stand in the order in which their leaves were issued, which is about
-- the order in which leaves are renewed: those that come together change few pages.
CREATE TABLE new_used_proofs (
    operator_id TEXT NOT NULL,
    sequence    BIGINT NOT NULL, -- of the leaf's entry
    jti         TEXT NOT NULL,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (operator_id, sequence, jti)
) /* sqlite: WITHOUT ROWID */;
INSERT INTO new_used_proofs (operator_id, sequence, jti, expires_at)
    SELECT e.operator_id, e.sequence, p.jti, p.expires_at
    FROM used_proofs p JOIN entries e ON p.leaf = e.operator_id || '/' || e.serial;
DROP TABLE used_proofs;
ALTER TABLE new_used_proofs RENAME TO used_proofs;

-- The lists of a state go by the end of the leaves.
DROP INDEX entries_revoked;
CREATE INDEX entries_revoked ON entries (operator_id, not_after, sequence) WHERE revoked_at IS NOT NULL;
