-- columns: function kind directargs transition final combine serial deserial mtransition inverse mfinal finalextra mfinalextra finalmodify mfinalmodify sortoperator transitiontype space mtransitiontype mspace initial minitial
select aggfnoid::oid, aggkind, aggnumdirectargs, aggtransfn::oid, aggfinalfn::oid, aggcombinefn::oid,
       aggserialfn::oid, aggdeserialfn::oid, aggmtransfn::oid, aggminvtransfn::oid, aggmfinalfn::oid,
       aggfinalextra, aggmfinalextra, aggfinalmodify, aggmfinalmodify, aggsortop,
       aggtranstype, aggtransspace, aggmtranstype, aggmtransspace, agginitval, aggminitval
from pg_aggregate
order by aggfnoid::oid;
