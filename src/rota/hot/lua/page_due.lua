-- The entries after (time, job). Thousands may have the same time, so the place of the job among them is found by
-- halving. Lua compares texts by the server's locale, but the heap orders them by their bytes.
-- KEYS: heap. ARGV: time, time + 1, job, limit. Returns {job, time, ...}.
local heap, job = KEYS[1], ARGV[3]

local function is_after(member)
    for place = 1, math.min(#member, #job) do
        local one, other = string.byte(member, place), string.byte(job, place)
        if one ~= other then
            return one > other
        end
    end
    return #member > #job
end

local low = redis.call('ZCOUNT', heap, '-inf', '(' .. ARGV[1])
-- Ours are whole microseconds. One of somebody else's with a fraction must not be told again and again.
local high = math.max(redis.call('ZCOUNT', heap, '-inf', '(' .. ARGV[2]), redis.call('ZCOUNT', heap, '-inf', ARGV[1]))
while low < high do
    local middle = math.floor((low + high) / 2)
    if is_after(redis.call('ZRANGE', heap, middle, middle)[1]) then
        high = middle
    else
        low = middle + 1
    end
end
return redis.call('ZRANGE', heap, low, low + tonumber(ARGV[4]) - 1, 'WITHSCORES')
