SELECT
    CAST(coalesce(julianday({}.announced_on), 0) AS INTEGER) << 32 | {}.id AS place,
    replace(replace(lower({}.title), 'c++', 'cplusplus'), 'c#', 'csharp') AS title,
    replace(replace(lower({}.abstract), 'c++', 'cplusplus'), 'c#', 'csharp') AS abstract,
    (
        SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each({}.authors)
    ) AS authors,
    (
        SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')
        FROM json_each({}.categories)
    ) AS categories
