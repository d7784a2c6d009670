cd /tmp/w/lane; . /tmp/c/env.sh
cat > .cg.py <<'P'
import omsgrain as og
from benches import data
g=data.standard(500)
b=og.encode_many(g); b=og.encode_many(g)
P
timeout 300 valgrind --tool=callgrind --callgrind-out-file=/tmp/lane.cg --toggle-collect='*__pyfunction_encode_many*' $py .cg.py 2>&1 | grep -i collected
callgrind_annotate /tmp/lane.cg 2>/dev/null | grep -E '^ *[0-9,]+ \(' | head -${1:-30} | cut -c1-150
