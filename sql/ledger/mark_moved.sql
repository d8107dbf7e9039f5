ALTER TABLE {{ table }} RENAME TO {{ moved }}
