-- What an earlier version made goes first.
DROP TRIGGER IF EXISTS papers_search_change
--;
DROP TRIGGER IF EXISTS papers_search_remove
--;
DROP TRIGGER IF EXISTS papers_search_add
--;
DROP TABLE IF EXISTS papers_titles
--;
DROP TABLE IF EXISTS papers_search
--;
-- Contentless: only row numbers are ever read from it, and FTS5 cannot read json_each itself. They
-- are in the order of days announced, so that a walk from the last one finds the latest papers, and
-- days are a range: the Julian day in the upper half, the paper's key in the lower.
CREATE VIRTUAL TABLE papers_search USING fts5 (
    title, abstract, authors, categories,
    content='', tokenize='porter unicode61 remove_diacritics 2', prefix='2 3 4'
)
--;
-- The same without abstracts: what stands in all of a title would be sought among ten times the
-- papers there.
CREATE VIRTUAL TABLE papers_titles USING fts5 (
    title, authors, categories,
    content='', tokenize='porter unicode61 remove_diacritics 2', prefix='2 3 4'
)
--;
CREATE TRIGGER papers_search_add AFTER INSERT ON papers_paper BEGIN
    INSERT INTO papers_search (rowid, title, abstract, authors, categories) {of new};
    INSERT INTO papers_titles (rowid, title, authors, categories)
    SELECT place, title, authors, categories FROM ({of new});
END
--;
CREATE TRIGGER papers_search_remove AFTER DELETE ON papers_paper BEGIN
    INSERT INTO papers_search (papers_search, rowid, title, abstract, authors, categories)
    SELECT 'delete', * FROM ({of old});
    INSERT INTO papers_titles (papers_titles, rowid, title, authors, categories)
    SELECT 'delete', place, title, authors, categories FROM ({of old});
END
--;
CREATE TRIGGER papers_search_change AFTER UPDATE ON papers_paper
WHEN old.title IS NOT new.title OR old.abstract IS NOT new.abstract
    OR old.authors IS NOT new.authors OR old.categories IS NOT new.categories
    OR old.announced_on IS NOT new.announced_on
BEGIN
    INSERT INTO papers_search (papers_search, rowid, title, abstract, authors, categories)
    SELECT 'delete', * FROM ({of old});
    INSERT INTO papers_titles (papers_titles, rowid, title, authors, categories)
    SELECT 'delete', place, title, authors, categories FROM ({of old});
    INSERT INTO papers_search (rowid, title, abstract, authors, categories) {of new};
    INSERT INTO papers_titles (rowid, title, authors, categories)
    SELECT place, title, authors, categories FROM ({of new});
END
--;
INSERT INTO papers_search (rowid, title, abstract, authors, categories)
{of paper} FROM papers_paper AS paper ORDER BY paper.announced_on, paper.id
--;
INSERT INTO papers_titles (rowid, title, authors, categories)
SELECT place, title, authors, categories FROM (
    {of paper} FROM papers_paper AS paper ORDER BY paper.announced_on, paper.id
)
