-- The words without accents. PostgreSQL's parser takes `<mask>` for a tag and leaves it out: punctuation
-- becomes blanks before it reads, so that words are letters and digits alone, as in SQLite's index.
ALTER TABLE papers_paper ADD COLUMN search tsvector GENERATED ALWAYS AS (
    setweight(
        to_tsvector('english', translate(
            translate(
                replace(replace(lower(title), 'c++', 'cplusplus'), 'c#', 'csharp'),
                'àáâãäåçèéêëìíîïñòóôõöùúûüýÿāăąćĉċčďēĕėęěĝğġģĥĩīĭįĳĵķĺļľŀńņňōŏőŕŗřśŝşšţťũūŭůűųŵŷźżž',
                'aaaaaaceeeeiiiinooooouuuuyyaaaccccdeeeeegggghiiiiijkllllnnnooorrrssssttuuuuuuwyzzz'
            ),
            '<>/@.-_', '       '
        )), 'A'
    )
    || setweight(
        to_tsvector('english', translate(
            translate(
                replace(replace(lower(jsonb_path_query_array(authors, '$[*].name')::text), 'c++', 'cplusplus'), 'c#', 'csharp'),
                'àáâãäåçèéêëìíîïñòóôõöùúûüýÿāăąćĉċčďēĕėęěĝğġģĥĩīĭįĳĵķĺļľŀńņňōŏőŕŗřśŝşšţťũūŭůűųŵŷźżž',
                'aaaaaaceeeeiiiinooooouuuuyyaaaccccdeeeeegggghiiiiijkllllnnnooorrrssssttuuuuuuwyzzz'
            ),
            '<>/@.-_', '       '
        )), 'B'
    )
    || setweight(
        to_tsvector('english', translate(
            translate(
                replace(replace(lower(abstract), 'c++', 'cplusplus'), 'c#', 'csharp'),
                'àáâãäåçèéêëìíîïñòóôõöùúûüýÿāăąćĉċčďēĕėęěĝğġģĥĩīĭįĳĵķĺļľŀńņňōŏőŕŗřśŝşšţťũūŭůűųŵŷźżž',
                'aaaaaaceeeeiiiinooooouuuuyyaaaccccdeeeeegggghiiiiijkllllnnnooorrrssssttuuuuuuwyzzz'
            ),
            '<>/@.-_', '       '
        )), 'C'
    )
    || setweight(to_tsvector('english', translate(categories::text, '.-', '01')), 'D')
) STORED
--;
CREATE INDEX papers_paper_search ON papers_paper USING gin (search)
