# Rights for a log of n partitions, from those for one: who may do something with a stream may do it with all its parts.
#
#   awk -v n=4 -f partitions.awk rights.conf > partitioned.conf
#
# and include partitioned.conf in its place (infra/docs/operations.md, "Partitions").
{ print }
/jetstream: enabled/ { print "    include \"shards.conf\"" }
# what is published has the shard in its subject by the time that permissions are looked at
/^ *(# )?"ctx\.v1\.(log|wake|urge|snap)\.[^ ]*"$/ { line = $0; sub(/ctx\.v1\./, "ctx.v1.shard.*.", line); print line }
/CTX_(LOG|WAKE|SNAP)|"log\.(get|info)"/ {
  for (part = 1; part < n; part++) {
    line = $0
    gsub(/CTX_(LOG|WAKE|SNAP)/, "&_" part, line)
    gsub(/"log\./, "\"log_" part ".", line)
    print line
  }
}
