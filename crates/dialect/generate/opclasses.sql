-- The operators of the default B-tree and hash operator classes: what ORDER BY, GROUP BY and DISTINCT use.
-- columns: type btree-family less equal greater hash-family hash-equal
select coalesce(b.opcintype, h.opcintype) as type,
       coalesce(b.opcfamily, 0),
       coalesce((select amopopr from pg_amop where amopfamily = b.opcfamily and amopstrategy = 1
                 and amoplefttype = b.opcintype and amoprighttype = b.opcintype), 0),
       coalesce((select amopopr from pg_amop where amopfamily = b.opcfamily and amopstrategy = 3
                 and amoplefttype = b.opcintype and amoprighttype = b.opcintype), 0),
       coalesce((select amopopr from pg_amop where amopfamily = b.opcfamily and amopstrategy = 5
                 and amoplefttype = b.opcintype and amoprighttype = b.opcintype), 0),
       coalesce(h.opcfamily, 0),
       coalesce((select amopopr from pg_amop where amopfamily = h.opcfamily and amopstrategy = 1
                 and amoplefttype = h.opcintype and amoprighttype = h.opcintype), 0)
from (select * from pg_opclass where opcdefault and opcmethod = (select oid from pg_am where amname = 'btree')) b
full join (select * from pg_opclass where opcdefault and opcmethod = (select oid from pg_am where amname = 'hash')) h
  on b.opcintype = h.opcintype
order by 1;
