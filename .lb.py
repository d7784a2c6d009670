import sys, time, hashlib
import omsgrain as og, ormsgpack
from benches import data
n=int(sys.argv[1]) if len(sys.argv)>1 else 8
def best(f, k=n):
    b=9
    for _ in range(k):
        t=time.perf_counter(); f(); b=min(b,time.perf_counter()-t)
    return b
for s,c in (("standard",20000),("sensors",20000),("events",1000)):
    g=data.SETS[s](c); short=data.compacted(g)
    def ours():
        b=og.encode_many(g); return b.addresses,b.blobs
    def enc(): og._core.encode_many(g, og.grain.options(), True)
    def peer():
        return [((p:=ormsgpack.packb(x,option=ormsgpack.OPT_SORT_KEYS)), hashlib.sha256(p).hexdigest()) for x in short]
    def one(): return [(b:=og.encode(x), og.address(b)) for x in g]
    b=og.encode_many(g)
    def outs(): return b.addresses,b.blobs
    blobs=b.blobs
    def am(): og.address_many(blobs)
    def cb():
        b=og.encode_many(g,encoding="cbor"); return b.addresses,b.blobs
    o,p,e,q,u,a,cc=best(ours),best(peer),best(enc),best(one),best(outs),best(am),best(cb)
    f=1e9/c
    print(f"{s}: ours {o*f:.0f} peer {p*f:.0f} ratio {p/o:.2f} | core encode_many {e*f:.0f} objects {u*f:.0f} address_many {a*f:.0f} cbor {cc*f:.0f} | one {q*f:.0f} ratio {p/q:.2f}")
