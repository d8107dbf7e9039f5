INSERT INTO {{ table }} BY NAME
SELECT
    $sequence AS sequence,
    $kind AS kind,
    $dataset AS dataset,
    $release AS release,
    $draw_id AS draw_id,
    $specification AS specification,
    $commitment AS commitment,
    $output_version AS output_version,
    $recorded_at AS recorded_at,
    $previous_hash AS previous_hash,
    $hash AS hash,
    $details AS details
