-- columns: oid name schema language cost rows variadic support kind secdef leakproof strict retset volatile parallel result argtypes allargtypes argmodes argnames ndefaults defaults source
select p.oid, proname, n.nspname, l.lanname, procost, prorows, provariadic, prosupport::oid, prokind, prosecdef,
       proleakproof, proisstrict, proretset, provolatile, proparallel, prorettype,
       proargtypes::text, array_to_string(proallargtypes, ' '), array_to_string(proargmodes, ''),
       array_to_string(proargnames, ','), pronargdefaults, pg_get_expr(proargdefaults, 0),
       regexp_replace(prosrc, '\s+', ' ', 'g')
from pg_proc p
join pg_namespace n on n.oid = pronamespace
join pg_language l on l.oid = prolang
where n.nspname in ('pg_catalog', 'information_schema')
order by proname collate "C", p.oid;
