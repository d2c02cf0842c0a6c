-- columns: function kind directargs transition final combine sortoperator transitiontype initial
select aggfnoid::oid, aggkind, aggnumdirectargs, aggtransfn::oid, aggfinalfn::oid, aggcombinefn::oid, aggsortop,
       aggtranstype, agginitval
from pg_aggregate
order by aggfnoid::oid;
