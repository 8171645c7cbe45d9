SELECT
    CAST(coalesce(julianday({}.announced_on), 0) AS INTEGER) << 32 | {}.id AS place,
    index_words({}.title) AS title,
    index_words({}.abstract) AS abstract,
    (
        SELECT index_words(group_concat(json_extract(value, '$.name'), ', ')) FROM json_each({}.authors)
    ) AS authors,
    (
        SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')
        FROM json_each({}.categories)
    ) AS categories
