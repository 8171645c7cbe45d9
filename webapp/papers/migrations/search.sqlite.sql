-- Contentless: only row numbers are ever read from it, and FTS5 cannot read json_each itself.
CREATE VIRTUAL TABLE papers_search USING fts5 (
    title, abstract, authors, categories,
    content='', tokenize='porter unicode61 remove_diacritics 2', prefix='2 3 4'
)
--;
CREATE TRIGGER papers_search_add AFTER INSERT ON papers_paper BEGIN
    INSERT INTO papers_search (rowid, title, abstract, authors, categories)
    SELECT new.id,
        replace(replace(lower(new.title), 'c++', 'cplusplus'), 'c#', 'csharp'),
        replace(replace(lower(new.abstract), 'c++', 'cplusplus'), 'c#', 'csharp'),
        (SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each(new.authors)),
        (SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')
            FROM json_each(new.categories));
END
--;
CREATE TRIGGER papers_search_remove AFTER DELETE ON papers_paper BEGIN
    INSERT INTO papers_search (papers_search, rowid, title, abstract, authors, categories)
    SELECT 'delete', old.id,
        replace(replace(lower(old.title), 'c++', 'cplusplus'), 'c#', 'csharp'),
        replace(replace(lower(old.abstract), 'c++', 'cplusplus'), 'c#', 'csharp'),
        (SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each(old.authors)),
        (SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')
            FROM json_each(old.categories));
END
--;
CREATE TRIGGER papers_search_change AFTER UPDATE ON papers_paper
WHEN old.title IS NOT new.title OR old.abstract IS NOT new.abstract
    OR old.authors IS NOT new.authors OR old.categories IS NOT new.categories
BEGIN
    INSERT INTO papers_search (papers_search, rowid, title, abstract, authors, categories)
    SELECT 'delete', old.id,
        replace(replace(lower(old.title), 'c++', 'cplusplus'), 'c#', 'csharp'),
        replace(replace(lower(old.abstract), 'c++', 'cplusplus'), 'c#', 'csharp'),
        (SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each(old.authors)),
        (SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')
            FROM json_each(old.categories));
    INSERT INTO papers_search (rowid, title, abstract, authors, categories)
    SELECT new.id,
        replace(replace(lower(new.title), 'c++', 'cplusplus'), 'c#', 'csharp'),
        replace(replace(lower(new.abstract), 'c++', 'cplusplus'), 'c#', 'csharp'),
        (SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each(new.authors)),
        (SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')
            FROM json_each(new.categories));
END
