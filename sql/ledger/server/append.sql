INSERT INTO stirred.entries (
    sequence,
    kind,
    dataset,
    release,
    draw_id,
    specification,
    commitment,
    output_version,
    recorded_at,
    previous_hash,
    hash,
    details
) VALUES (
    %(sequence)s,
    %(kind)s,
    %(dataset)s,
    %(release)s,
    %(draw_id)s,
    %(specification)s,
    %(commitment)s,
    %(output_version)s,
    %(recorded_at)s,
    %(previous_hash)s,
    %(hash)s,
    %(details)s
)
