ties.put_all = put_all
