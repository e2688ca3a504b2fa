-- +goose Up
-- The last renewal that was refused to a leaf. It counts until the leaf has a
-- successor: whoever renews after all has a newer entry.
CREATE TABLE refused_renewals (
    operator_id TEXT NOT NULL,
    serial      TEXT NOT NULL,
    reason      TEXT NOT NULL, -- of the contract's closed list
    at          BIGINT NOT NULL,
    PRIMARY KEY (operator_id, serial)
) /* sqlite: WITHOUT ROWID */;
