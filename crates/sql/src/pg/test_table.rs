/// A table definition as the engine would give it.
fn test_table(
    id: u32,
    name: &str,
    columns: &[ColumnOf<'_>],
    primary_key: &[usize],
    indexes: &[(u32, &str, &[usize], bool)],
) -> Arc<Table> {
    Arc::new(Table {
        id,
        schema: "public".into(),
        name: name.into(),
        columns: columns
            .iter()
            .map(|(name, ty, nullable, default)| resurgam_engine::Column {
                name: (*name).into(),
                ty: *ty,
                nullable: *nullable,
                default_sql: default.map(Into::into),
            })
            .collect(),
        primary_key: primary_key.to_vec(),
        primary_key_name: format!("{name}_pkey"),
        indexes: indexes
            .iter()
            .map(|(id, name, columns, unique)| resurgam_engine::Index {
                id: *id,
                name: (*name).into(),
                columns: columns.to_vec(),
                unique: *unique,
                constraint: false,
            })
            .collect(),
    })
}
