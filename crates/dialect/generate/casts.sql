-- columns: oid source target function context method
select oid, castsource, casttarget, castfunc, castcontext, castmethod
from pg_cast
order by castsource, casttarget;
