-- What an earlier version made goes first, and its index with it.
ALTER TABLE papers_paper
DROP COLUMN IF EXISTS search,
DROP COLUMN IF EXISTS search_titles,
DROP COLUMN IF EXISTS search_authors
--;
{function}
--;
-- The words as `query.fold` gives them, by the tables of `folding.py`. PostgreSQL's parser takes `<mask>` for a tag
-- and leaves it out: punctuation becomes blanks before it reads, so that words are letters and digits
-- alone, as in SQLite's index. Among them are, as words that no paper and no reader writes, a paper's
-- categories and the blocks of 8, 32, … days in which it was announced, by which the latest are found. A
-- field by itself stands in a column of its own: where in a paper a word stands the index does not know,
-- and to look at each paper that holds it anywhere would take seconds.
-- A paper's words stay in its row, two papers to a page of 8 kB: out of line, where PostgreSQL puts them by
-- default, a search would look each of them up once more.
ALTER TABLE papers_paper
SET (toast_tuple_target = 4080),
ADD COLUMN search tsvector GENERATED ALWAYS AS (
    to_tsvector('english', {of title})
    || to_tsvector('english', {of jsonb_path_query_array(authors, '$[*].name')})
    || setweight(to_tsvector('english', {of abstract}), 'C')
    || to_tsvector(
        'english', replace(translate(categories::text, '.-', '01'), '"', ' zqcategory')
        || ' zqdays8n' || ((coalesce(announced_on, DATE '0001-01-01') - DATE '0001-01-01') / 8)::text
        || ' zqdays32n' || ((coalesce(announced_on, DATE '0001-01-01') - DATE '0001-01-01') / 32)::text
        || ' zqdays128n' || ((coalesce(announced_on, DATE '0001-01-01') - DATE '0001-01-01') / 128)::text
        || ' zqdays512n' || ((coalesce(announced_on, DATE '0001-01-01') - DATE '0001-01-01') / 512)::text
        || ' zqdays2048n' || ((coalesce(announced_on, DATE '0001-01-01') - DATE '0001-01-01') / 2048)::text
    )
) STORED,
ADD COLUMN search_titles tsvector GENERATED ALWAYS AS (
    to_tsvector('english', {of title})
) STORED,
ADD COLUMN search_authors tsvector GENERATED ALWAYS AS (
    to_tsvector('english', {of jsonb_path_query_array(authors, '$[*].name')})
) STORED,
ALTER COLUMN search SET STORAGE MAIN
--;
CREATE INDEX papers_paper_search ON papers_paper USING gin (search, search_titles, search_authors)
