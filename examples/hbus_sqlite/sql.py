"""Everything that is said to SQLite."""

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT, body BLOB, at_ms INTEGER);
CREATE INDEX IF NOT EXISTS message_topic ON message (topic, id);
CREATE TABLE IF NOT EXISTS idem (topic, key, digest, message_id, position, until_ms, PRIMARY KEY (topic, key));
CREATE TABLE IF NOT EXISTS tally (topic, grp, name, n, PRIMARY KEY (topic, grp, name));
-- AUTOINCREMENT: a group made anew is another one, in which receipts of before own nothing.
CREATE TABLE IF NOT EXISTS grp (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic, name, paused DEFAULT 0, UNIQUE (topic, name)
);
-- One row for each message a group has not settled. state: new, released, leased, retry; due_ms: when it may be had.
CREATE TABLE IF NOT EXISTS delivery (
    grp INTEGER REFERENCES grp ON DELETE CASCADE, message INTEGER, state DEFAULT 'new', due_ms DEFAULT 0, token,
    consumer, since_ms, failed DEFAULT 0, history DEFAULT '[]', PRIMARY KEY (grp, message)
);
CREATE INDEX IF NOT EXISTS delivery_message ON delivery (message);
CREATE TRIGGER IF NOT EXISTS settled_by_all AFTER DELETE ON delivery
    WHEN NOT EXISTS (SELECT 1 FROM delivery WHERE message = OLD.message)
    BEGIN DELETE FROM message WHERE id = OLD.message; END;
-- By the names of topic and group, which a letter outlives.
CREATE TABLE IF NOT EXISTS letter (id INTEGER PRIMARY KEY AUTOINCREMENT, topic, grp, position, body, record);
"""
LAG = """SELECT coalesce(sum(state IN ('new', 'released')), 0), coalesce(sum(state='leased' AND due_ms>?1), 0),
    coalesce(sum(state='retry' OR state='leased' AND due_ms<=?1), 0),
    (SELECT count(*) FROM letter WHERE topic=?3 AND grp=?4), min(at_ms)
    FROM delivery JOIN message ON id=message WHERE grp=?2"""
# What was handed out before comes before what is new.
TAKE = """SELECT message, state, consumer, since_ms, failed, history, body FROM delivery JOIN message ON id=message
    WHERE grp=? AND due_ms<=? AND NOT ? ORDER BY state='new', message LIMIT ?"""
LEASE = """UPDATE delivery SET state='leased', due_ms=?, token=?, consumer=?, since_ms=?, failed=?, history=?
    WHERE grp=? AND message=?"""
# An ack is honoured from anybody who had the message (its effect exists), the rest only of who holds it.
HELD = """SELECT failed, history, body FROM delivery JOIN message ON id=message
    WHERE grp=? AND message=? AND (? OR token=? AND state='leased')"""
CHANGE = "UPDATE delivery SET state=?, due_ms=?, token='', failed=failed+?, history=? WHERE grp=? AND message=?"
EXTEND = "UPDATE delivery SET due_ms=? WHERE grp=? AND message=? AND token=? AND state='leased'"
SEEN = "SELECT digest, message_id, position FROM idem WHERE topic=? AND key=? AND until_ms>?"
APPEND = "INSERT INTO message (topic, body, at_ms) VALUES (?, ?, ?) RETURNING id"
REMEMBER = "REPLACE INTO idem VALUES (?, ?, ?, ?, ?, ?)"
DEPTH = "SELECT count(*), sum(length(body)), min(at_ms), max(at_ms) FROM message WHERE topic=?"
LETTERS = "SELECT id, position, body, record FROM letter WHERE topic=? AND grp=? ORDER BY id LIMIT ?"
BURY = "INSERT INTO letter (topic, grp, position, body, record) VALUES (?, ?, ?, ?, ?)"
COUNT = "INSERT INTO tally VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET n=n+1"
COUNTS = "SELECT name, n FROM tally WHERE topic=? AND grp=?"
GROUP = "SELECT id, name, paused FROM grp WHERE topic=? AND name=?"
GROUPS = "SELECT name FROM grp WHERE topic=? ORDER BY 1"
MAKE = "INSERT OR IGNORE INTO grp (topic, name) VALUES (?, ?) RETURNING id"
CLAIM = "INSERT INTO delivery (grp, message) SELECT ?, id FROM message WHERE topic=?"
FAN_OUT = "INSERT INTO delivery (grp, message) SELECT id, ? FROM grp WHERE topic=?"
