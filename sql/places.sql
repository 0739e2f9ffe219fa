-- The SELECT is the mapping: one row a page, the columns named as a sitemap names them.
-- Anything else (visits) is a signal for the rules of the section.
SELECT
    id,
    CASE WHEN name = '' THEN NULL ELSE '/place/' || country || '/' || name || '-' || id END AS loc,
    updated_at AS lastmod,
    withdrawn AS exclude,  -- not null: the page is not listed, for this reason
    visits
FROM place
