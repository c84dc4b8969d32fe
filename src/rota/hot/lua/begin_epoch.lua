-- After FLUSHALL the server has no owner. Whoever fills the heap anew owns it, unless another store was faster.
-- KEYS: heap, owner. ARGV: the member that names the epoch, store. Returns the owner, if that is another store.
local heap, owner = KEYS[1], redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[2] then
    return owner
end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('ZADD', heap, 'inf', ARGV[1])
for _, epoch in ipairs(redis.call('ZRANGEBYSCORE', heap, 'inf', 'inf')) do
    if epoch ~= ARGV[1] then
        redis.call('ZREM', heap, epoch)
    end
end
return false
