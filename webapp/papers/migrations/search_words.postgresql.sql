translate(
    replace(replace(
        regexp_replace(normalize(lower({}::text), NFKD), '[\u0300-\u036f]', '', 'g'),
        'c++', 'cplusplus'), 'c#', 'csharp'
    ),
    '<>/@.-_', '       '
)
