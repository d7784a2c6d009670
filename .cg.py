import omsgrain as og
from benches import data
g=data.standard(500)
b=og.encode_many(g); b=og.encode_many(g)
