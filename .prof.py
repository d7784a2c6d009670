import omsgrain as og, sys
from benches import data
g=data.standard(2000)
for _ in range(int(sys.argv[1])):
    b=og.encode_many(g)
