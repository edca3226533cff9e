# Does work of several kinds in two threads, and prints what share of the CPU time each took.
def cpu; Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID); end
def recursion(n = 14); n < 2 ? n : recursion(n - 1) + recursion(n - 2); end
def raising
  60.times do |i|
    raise ArgumentError, "x" if i.odd?
  rescue ArgumentError => e
    e.message
  end
end
def blocks; (1..400).sum { |i| [1, 2, 3].sum { |j| i * j } }; end
def fibers
  fiber = Fiber.new { 150.times { |i| Fiber.yield i }; nil }
  while fiber.resume; end
end
ADD = ->(a, b) { a + b }
def closures; 700.times.inject(0) { |x, i| ADD.call(x, i) }; end
def in_c; a = (0...900).to_a.reverse; a.sort!; a.pack("N*").unpack("N*").sum; end
WORK = %i[recursion raising blocks fibers closures in_c].freeze
def work(seconds)
  took = Hash.new(0.0)
  to = cpu + seconds
  while cpu < to
    WORK.shuffle.each do |name| # no work is in step with the sampling clock
      from = cpu
      8.times { send(name) }
      took[name] += cpu - from
    end
  end
  took
end
sleep 0.3 # by its end the reader of frames is there
seconds = ARGV[0].to_f
all = [Thread.new { work(seconds / 2) }, Thread.new { work(seconds / 2) }].map(&:value)
took = WORK.to_h { |name| [name, all.sum { |one| one[name] }] }
total = took.values.sum
puts "{" + took.map { |name, s| "\"#{name}\": #{s / total}" }.join(", ") + "}"
