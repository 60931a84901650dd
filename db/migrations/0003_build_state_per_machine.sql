-- Per machine, because what came with the program (the reference) is no state of a build on a user's machine.

DROP TABLE build_state;

CREATE TABLE build_state (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, machine VARCHAR NOT NULL, state VARCHAR NOT NULL,
    cells BIGINT NOT NULL
);
