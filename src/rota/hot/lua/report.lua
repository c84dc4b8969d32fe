-- Keeps reports: each under a key of its own with a life, `fence number content`. Two books bound their memory: the
-- order of writing, and a hash of sizes with their total. Both live longer than every report, so none is lost to them.
-- The order counts writes and not time: the server's clock may be set back.
-- KEYS: order, sizes. ARGV: prefix of the keys, life in ms, most bytes, then job, fence, number, size, content, ...
local order, sizes, prefix = KEYS[1], KEYS[2], ARGV[1]
local life, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local given = (#ARGV - 3) / 5
local total = 0

local function throw_away(jobs, from)
    for place = 1, #jobs, 1000 do
        local keys = {}
        for one = place, math.min(place + 999, #jobs) do
            keys[#keys + 1] = prefix .. string.sub(jobs[one], from)
        end
        redis.call('UNLINK', unpack(keys))
    end
end

-- Books that don't fit each other (somebody deleted one of them) begin anew, without what stood in either.
local function open_books()
    local ordered, sized = redis.pcall('ZCARD', order), redis.pcall('HLEN', sizes)
    local readable = type(ordered) == 'number' and type(sized) == 'number'
    local kept = readable and tonumber(redis.call('HGET', sizes, 'total'))
    if readable and ordered == math.max(sized - 1, 0) and (kept or sized == 0) then
        total = kept or 0
        return
    end
    if type(ordered) == 'number' then
        throw_away(redis.call('ZRANGE', order, 0, -1), 1)
    end
    if type(sized) == 'number' then
        throw_away(redis.call('HKEYS', sizes), 2)
    end
    redis.call('UNLINK', order, sizes)
end

local function strike(job)
    local size = tonumber(redis.call('HGET', sizes, '=' .. job))
    if size then
        total = total - size
        redis.call('HDEL', sizes, '=' .. job)
        redis.call('ZREM', order, job)
    end
end

local function is_later(key, fence, number)
    local head = redis.pcall('GETRANGE', key, 0, 47)
    local kept_fence, kept_number = string.match(type(head) == 'string' and head or '', '^(%d+) (%d+) ')
    if not kept_fence then
        return true
    end
    local difference = tonumber(fence) - tonumber(kept_fence)
    return difference > 0 or (difference == 0 and tonumber(number) > tonumber(kept_number))
end

open_books()
local count = tonumber(redis.call('ZRANGE', order, -1, -1, 'WITHSCORES')[2] or 0)
for place = 4, #ARGV, 5 do
    local job, fence, number, size, content = unpack(ARGV, place, place + 4)
    if is_later(prefix .. job, fence, number) then
        if tonumber(size) > most then -- it would drive out all others, and then itself
            redis.call('UNLINK', prefix .. job)
            strike(job)
        else
            redis.call('SET', prefix .. job, fence .. ' ' .. number .. ' ' .. content, 'PX', life)
            strike(job)
            count, total = count + 1, total + tonumber(size)
            redis.call('HSET', sizes, '=' .. job, size)
            redis.call('ZADD', order, count, job)
        end
    end
end
-- Those whose life is over are among the oldest.
for _, job in ipairs(redis.call('ZRANGE', order, 0, given + 9)) do
    if redis.call('EXISTS', prefix .. job) == 0 then
        strike(job)
    end
end
for _ = 1, 1000 + 2 * given do -- a bound that was lowered by far is reached in several steps
    local oldest = total > most and redis.call('ZRANGE', order, 0, 0)[1]
    if not oldest then
        break
    end
    redis.call('UNLINK', prefix .. oldest)
    strike(oldest)
end
redis.call('HSET', sizes, 'total', string.format('%.0f', total))
for _, book in ipairs(KEYS) do
    if redis.call('PTTL', book) < life + 1000 then
        redis.call('PEXPIRE', book, life + 1000)
    end
end
return redis.status_reply('OK')
