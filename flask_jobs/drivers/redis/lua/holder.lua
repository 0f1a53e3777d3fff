-- uses: common open_keys(keys)
-- The job that holds the key with this digest, or nothing.
return open_keys().holder(take())
