-- How a level's estimates were made.
SELECT
    $made_of AS made_of,
    $read AS read,
    $content AS content,
    $places::BIGINT AS places,
    $parents::BIGINT AS parents,
    $solved::BIGINT AS solved,
    $gap::DOUBLE AS gap,
    $violation::DOUBLE AS violation,
    $seconds::DOUBLE AS seconds,
    $held AS held,
    $draw_id AS draw_id
