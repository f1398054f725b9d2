-- Which of some bodies are kept already, wherever that is.
-- hashes  bytea[]
SELECT body_hash FROM body WHERE body_hash = ANY(%(hashes)s::bytea[])
