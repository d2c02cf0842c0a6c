-- columns: oid name kind canmerge canhash left right result commutator negator code restriction join
select o.oid, oprname, oprkind, oprcanmerge, oprcanhash, oprleft, oprright, oprresult, oprcom, oprnegate,
       oprcode::oid, oprrest::oid, oprjoin::oid
from pg_operator o
where oprnamespace = 'pg_catalog'::regnamespace
order by oprname collate "C", o.oid;
