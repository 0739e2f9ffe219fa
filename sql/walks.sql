-- Over the Parquet export, in DuckDB: the table is called source.
SELECT
    '/' || language || '/walk/' || walk AS loc,
    list_transform(photos, lambda photo: 'https://gazetteer.example' || photo) AS images,
    walk,
    language,
    title,
    kilometres,
    published_on
FROM source
