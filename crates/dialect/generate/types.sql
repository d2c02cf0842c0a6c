-- columns: oid name schema len byval typtype category preferred delim relation subscript elem array input output receive send modin modout analyze align storage notnull base typmod ndims collation subtype multirange
select t.oid, typname, n.nspname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim,
       typrelid, typsubscript, typelem, typarray, typinput::oid, typoutput::oid, typreceive::oid, typsend::oid,
       typmodin::oid, typmodout::oid, typanalyze::oid, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims,
       typcollation, coalesce(r.rngsubtype, m.rngtypid, 0), coalesce(r.rngmultitypid, 0)
from pg_type t
join pg_namespace n on n.oid = typnamespace
left join pg_range r on r.rngtypid = t.oid
left join pg_range m on m.rngmultitypid = t.oid
where n.nspname in ('pg_catalog', 'information_schema')
order by t.oid;
